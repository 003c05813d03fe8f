// franz-go.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap), kgo.FetchMaxWait(200*time.Millisecond))...)
}

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

func produce(words []string) ([]string, error) {
	until, end := limited()
	defer end()
	producer, problem := client(
		kgo.ProducerBatchCompression(codecs[words[1]]), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(50*time.Millisecond),
	)
	if problem != nil {
		return nil, problem
	}
	defer producer.Close()
	var records []*kgo.Record
	for each := 0; each < number(words[2]); each++ {
		records = append(records, &kgo.Record{Topic: words[0], Partition: int32(each % 2), Key: key(each), Value: value(each)})
	}
	return nil, producer.ProduceSync(until, records...).FirstErr()
}

func take(reader *kgo.Client, count int) ([]string, error) {
	until, end := limited()
	defer end()
	var found []string
	for len(found) < count {
		fetches := reader.PollFetches(until)
		if problem := fetches.Err(); problem != nil {
			return nil, problem
		}
		fetches.EachRecord(func(record *kgo.Record) { found = append(found, string(record.Value)) })
	}
	return found, nil
}

func from(topic string, offsets map[int32]kgo.Offset, count int) ([]string, error) {
	reader, problem := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))
	if problem != nil {
		return nil, problem
	}
	defer reader.Close()
	return take(reader, count)
}

func read(words []string) ([]string, error) {
	start := kgo.NewOffset().AtStart()
	return from(words[0], map[int32]kgo.Offset{0: start, 1: start}, number(words[1]))
}

func seek(words []string) ([]string, error) {
	found, problem := from(words[0], map[int32]kgo.Offset{0: kgo.NewOffset().At(int64(number(words[1])))}, 1)
	if problem != nil {
		return nil, problem
	}
	return found[:1], nil
}

func offsets(words []string) ([]string, error) {
	until, end := limited()
	defer end()
	asking, problem := client()
	if problem != nil {
		return nil, problem
	}
	defer asking.Close()
	admin := kadm.NewClient(asking)
	first, problem := admin.ListStartOffsets(until, words[0])
	if problem != nil {
		return nil, problem
	}
	last, problem := admin.ListEndOffsets(until, words[0])
	if problem != nil {
		return nil, problem
	}
	return []string{fmt.Sprint(first[words[0]][0].Offset), fmt.Sprint(last[words[0]][0].Offset)}, nil
}

func member(words []string) (*kgo.Client, error) {
	return client(
		kgo.ConsumerGroup(words[1]), kgo.ConsumeTopics(words[0]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
	)
}

func group(words []string) ([]string, error) {
	reader, problem := member(words)
	if problem != nil {
		return nil, problem
	}
	defer reader.Close()
	found, problem := take(reader, number(words[2]))
	if problem != nil {
		return nil, problem
	}
	return found, reader.CommitUncommittedOffsets(context.Background())
}

func follow(words []string) ([]string, error) {
	until, end := context.WithCancel(context.Background())
	signals := ended()
	go func() {
		<-signals
		end()
	}()
	reader, problem := member(words)
	if problem != nil {
		return nil, problem
	}
	defer reader.Close()
	for until.Err() == nil {
		reader.PollFetches(until).EachRecord(func(record *kgo.Record) {
			tell(int(record.Partition), record.Offset, record.Value)
		})
		if problem := reader.CommitUncommittedOffsets(context.Background()); problem != nil && until.Err() == nil {
			return nil, problem
		}
	}
	return nil, nil
}

func administer(act func(context.Context, *kadm.Client) error) ([]string, error) {
	until, end := limited()
	defer end()
	asking, problem := client()
	if problem != nil {
		return nil, problem
	}
	defer asking.Close()
	return nil, act(until, kadm.NewClient(asking))
}

func create(words []string) ([]string, error) {
	return administer(func(until context.Context, admin *kadm.Client) error {
		_, problem := admin.CreateTopic(until, 3, 1, nil, words[0])
		return problem
	})
}

func remove(words []string) ([]string, error) {
	return administer(func(until context.Context, admin *kadm.Client) error {
		_, problem := admin.DeleteTopic(until, words[0])
		return problem
	})
}

func transact(words []string) ([]string, error) {
	until, end := limited()
	defer end()
	producer, problem := client(kgo.TransactionalID(words[1]), kgo.DefaultProduceTopic(words[0]))
	if problem != nil {
		return nil, problem
	}
	defer producer.Close()
	for outcome, how := range map[string]kgo.TransactionEndTry{"aborted": kgo.TryAbort, "committed": kgo.TryCommit} {
		if problem := producer.BeginTransaction(); problem != nil {
			return nil, problem
		}
		record := &kgo.Record{Key: []byte("key"), Value: []byte(outcome)}
		if problem := producer.ProduceSync(until, record).FirstErr(); problem != nil {
			return nil, problem
		}
		if problem := producer.EndTransaction(until, how); problem != nil {
			return nil, problem
		}
	}
	return nil, nil
}

func main() {
	serve(map[string]step{
		"produce": produce, "read": read, "group": group, "seek": seek, "offsets": offsets,
		"create": create, "delete": remove, "transact": transact, "follow": follow,
	})
}
