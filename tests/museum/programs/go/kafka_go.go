// kafka-go of Segment; topics are made and deleted by its Conn.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

var codecs = map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

func produce(words []string) ([]string, error) {
	until, end := limited()
	defer end()
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: words[0], RequiredAcks: kafka.RequireAll, BatchTimeout: 50 * time.Millisecond,
		Compression: codecs[words[1]], Transport: &kafka.Transport{}, // the shared one knows no topics that are newer
		Balancer: kafka.BalancerFunc(func(record kafka.Message, partitions ...int) int {
			return (int(record.Value[len(record.Value)-1]) - '0') % 2
		}),
	}
	defer writer.Close()
	var records []kafka.Message
	for each := 0; each < number(words[2]); each++ {
		records = append(records, kafka.Message{Key: key(each), Value: value(each)})
	}
	return nil, writer.WriteMessages(until, records...)
}

func take(reader *kafka.Reader, count int, commit bool) ([]string, error) {
	until, end := limited()
	defer end()
	var found []string
	for len(found) < count {
		record, problem := reader.FetchMessage(until)
		if problem != nil {
			return nil, problem
		}
		found = append(found, string(record.Value))
		if commit {
			if problem := reader.CommitMessages(until, record); problem != nil {
				return nil, problem
			}
		}
	}
	return found, nil
}

func partition(topic string, each int) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: topic, Partition: each, MaxWait: 200 * time.Millisecond,
	})
}

func read(words []string) ([]string, error) {
	var found []string
	for each := 0; each < 2; each++ {
		reader := partition(words[0], each)
		values, problem := take(reader, number(words[1])/2, false)
		reader.Close()
		if problem != nil {
			return nil, problem
		}
		found = append(found, values...)
	}
	return found, nil
}

func seek(words []string) ([]string, error) {
	reader := partition(words[0], 0)
	defer reader.Close()
	if problem := reader.SetOffset(int64(number(words[1]))); problem != nil {
		return nil, problem
	}
	return take(reader, 1, false)
}

func offsets(words []string) ([]string, error) {
	until, end := limited()
	defer end()
	connection, problem := kafka.DialLeader(until, "tcp", bootstrap, words[0], 0)
	if problem != nil {
		return nil, problem
	}
	defer connection.Close()
	first, last, problem := connection.ReadOffsets()
	return []string{fmt.Sprint(first), fmt.Sprint(last)}, problem
}

func member(words []string) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: words[0], GroupID: words[1], StartOffset: kafka.FirstOffset,
		MaxWait: 200 * time.Millisecond, SessionTimeout: 6 * time.Second, HeartbeatInterval: 500 * time.Millisecond,
	})
}

func group(words []string) ([]string, error) {
	reader := member(words)
	defer reader.Close()
	return take(reader, number(words[2]), true)
}

func follow(words []string) ([]string, error) {
	until, end := context.WithCancel(context.Background())
	signals := ended()
	go func() {
		<-signals
		end()
	}()
	reader := member(words)
	defer reader.Close()
	for {
		record, problem := reader.FetchMessage(until)
		if until.Err() != nil {
			return nil, nil
		}
		if problem != nil {
			return nil, problem
		}
		tell(record.Partition, record.Offset, record.Value)
		if problem := reader.CommitMessages(context.Background(), record); problem != nil {
			return nil, problem
		}
	}
}

func controller() (*kafka.Conn, error) {
	connection, problem := kafka.Dial("tcp", bootstrap)
	if problem != nil {
		return nil, problem
	}
	defer connection.Close()
	found, problem := connection.Controller()
	if problem != nil {
		return nil, problem
	}
	return kafka.Dial("tcp", fmt.Sprintf("%s:%d", found.Host, found.Port))
}

func create(words []string) ([]string, error) {
	connection, problem := controller()
	if problem != nil {
		return nil, problem
	}
	defer connection.Close()
	return nil, connection.CreateTopics(kafka.TopicConfig{Topic: words[0], NumPartitions: 3, ReplicationFactor: 1})
}

func remove(words []string) ([]string, error) {
	connection, problem := controller()
	if problem != nil {
		return nil, problem
	}
	defer connection.Close()
	return nil, connection.DeleteTopics(words[0])
}

func main() {
	serve(map[string]step{
		"produce": produce, "read": read, "group": group, "seek": seek, "offsets": offsets,
		"create": create, "delete": remove, "follow": follow,
	})
}
