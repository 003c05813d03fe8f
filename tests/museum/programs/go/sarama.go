// Sarama, pinned to the version of brokers in the third argument, such as 0.10.2.0.
// What its releases do in different ways is in sarama_today.go and sarama_shopify.go.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

func config() *sarama.Config {
	settings := sarama.NewConfig()
	version, problem := sarama.ParseKafkaVersion(arguments[0])
	if problem != nil {
		panic(problem)
	}
	settings.Version = version
	settings.Producer.Return.Successes = true
	settings.Producer.RequiredAcks = sarama.WaitForAll
	settings.Producer.Partitioner = sarama.NewManualPartitioner
	settings.Producer.Flush.Frequency = 50 * time.Millisecond
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	setCommits(settings)
	settings.Consumer.Group.Session.Timeout = 6 * time.Second
	settings.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	settings.Metadata.RefreshFrequency = time.Second
	return settings
}

func produce(words []string) ([]string, error) {
	settings := config()
	settings.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[words[1]]
	producer, problem := sarama.NewSyncProducer([]string{bootstrap}, settings)
	if problem != nil {
		return nil, problem
	}
	defer producer.Close()
	var records []*sarama.ProducerMessage
	for each := 0; each < number(words[2]); each++ {
		records = append(records, &sarama.ProducerMessage{
			Topic: words[0], Partition: int32(each % 2),
			Key: sarama.ByteEncoder(key(each)), Value: sarama.ByteEncoder(value(each)),
		})
	}
	return nil, producer.SendMessages(records)
}

func take(topic string, partitions []int32, from int64, count int) ([]string, error) {
	settings := config()
	settings.Consumer.Return.Errors = true
	consumer, problem := sarama.NewConsumer([]string{bootstrap}, settings)
	if problem != nil {
		return nil, problem
	}
	defer consumer.Close()
	values := make(chan string, 1000)
	problems := make(chan error, 1000)
	for _, each := range partitions {
		reader, problem := consumer.ConsumePartition(topic, each, from)
		if problem != nil {
			return nil, problem
		}
		defer reader.AsyncClose()
		go func() {
			for record := range reader.Messages() {
				values <- string(record.Value)
			}
		}()
		go func() {
			for problem := range reader.Errors() {
				problems <- problem
			}
		}()
	}
	var found []string
	for len(found) < count {
		select {
		case each := <-values:
			found = append(found, each)
		case problem := <-problems:
			return nil, problem
		case <-time.After(30 * time.Second):
			return nil, fmt.Errorf("%d records of %d", len(found), count)
		}
	}
	return found, nil
}

func read(words []string) ([]string, error) {
	return take(words[0], []int32{0, 1}, sarama.OffsetOldest, number(words[1]))
}

func seek(words []string) ([]string, error) {
	found, problem := take(words[0], []int32{0}, int64(number(words[1])), 1)
	if problem != nil {
		return nil, problem
	}
	return found[:1], nil
}

func offsets(words []string) ([]string, error) {
	client, problem := sarama.NewClient([]string{bootstrap}, config())
	if problem != nil {
		return nil, problem
	}
	defer client.Close()
	var found []string
	for _, when := range []int64{sarama.OffsetOldest, sarama.OffsetNewest} {
		offset, problem := client.GetOffset(words[0], 0, when)
		if problem != nil {
			return nil, problem
		}
		found = append(found, fmt.Sprint(offset))
	}
	return found, nil
}

// A member hands on what it reads until nobody takes it.
type member struct {
	seen func(session sarama.ConsumerGroupSession, record *sarama.ConsumerMessage)
}

func (member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (each member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case record, more := <-claim.Messages():
			if !more {
				return nil
			}
			each.seen(session, record)
		case <-session.Context().Done():
			return nil
		}
	}
}

func join(words []string, until context.Context, seen func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage)) error {
	group, problem := sarama.NewConsumerGroup([]string{bootstrap}, words[1], config())
	if problem != nil {
		return problem
	}
	defer group.Close()
	for until.Err() == nil {
		if problem := group.Consume(until, []string{words[0]}, member{seen}); problem != nil {
			return problem
		}
	}
	return nil
}

func group(words []string) ([]string, error) {
	until, end := context.WithTimeout(context.Background(), 30*time.Second)
	defer end()
	values := make(chan string, 1000)
	count := number(words[2])
	problem := join(words, until, func(session sarama.ConsumerGroupSession, record *sarama.ConsumerMessage) {
		values <- string(record.Value)
		session.MarkMessage(record, "")
		commit(session)
		if len(values) == count {
			end()
		}
	})
	close(values)
	var found []string
	for each := range values {
		found = append(found, each)
	}
	return found, problem
}

func follow(words []string) ([]string, error) {
	until, end := context.WithCancel(context.Background())
	signals := ended()
	go func() {
		<-signals
		end()
	}()
	return nil, join(words, until, func(session sarama.ConsumerGroupSession, record *sarama.ConsumerMessage) {
		tell(int(record.Partition), record.Offset, record.Value)
		session.MarkMessage(record, "")
		commit(session)
	})
}

func create(words []string) ([]string, error) {
	admin, problem := sarama.NewClusterAdmin([]string{bootstrap}, config())
	if problem != nil {
		return nil, problem
	}
	defer admin.Close()
	return nil, admin.CreateTopic(words[0], &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false)
}

func remove(words []string) ([]string, error) {
	admin, problem := sarama.NewClusterAdmin([]string{bootstrap}, config())
	if problem != nil {
		return nil, problem
	}
	defer admin.Close()
	return nil, admin.DeleteTopic(words[0])
}

func main() {
	serve(map[string]step{
		"produce": produce, "read": read, "group": group, "seek": seek, "offsets": offsets,
		"create": create, "delete": remove, "transact": transact, "follow": follow,
	})
}
