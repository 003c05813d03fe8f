// What monitors of Sarama's ask of brokers when they are set to an old version, the third argument, such as 0.10.2.0: topics, the
// ends of partitions, the groups of every broker and their members, committed offsets, and the records that coordinators keep them in.
package main

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

func connect() (sarama.Client, error) {
	settings := sarama.NewConfig()
	version, problem := sarama.ParseKafkaVersion(arguments[0])
	if problem != nil {
		return nil, problem
	}
	settings.Version = version
	settings.Consumer.Return.Errors = true
	return sarama.NewClient([]string{bootstrap}, settings)
}

func describe(words []string) ([]string, error) {
	client, problem := connect()
	if problem != nil {
		return nil, problem
	}
	defer client.Close()
	partitions, problem := client.Partitions(words[0])
	return []string{fmt.Sprint(len(partitions))}, problem
}

func end(client sarama.Client, topic string, partition int32) (int64, error) {
	broker, problem := client.Leader(topic, partition)
	if problem != nil {
		return 0, problem
	}
	request := &sarama.OffsetRequest{}
	request.AddBlock(topic, partition, sarama.OffsetNewest, 1)
	answer, problem := broker.GetAvailableOffsets(request)
	if problem != nil {
		return 0, problem
	}
	block := answer.GetBlock(topic, partition)
	if block.Err != sarama.ErrNoError {
		return 0, block.Err
	}
	return block.Offsets[0], nil
}

// lag asks the group's coordinator.
func lag(words []string) ([]string, error) {
	client, problem := connect()
	if problem != nil {
		return nil, problem
	}
	defer client.Close()
	for _, broker := range client.Brokers() {
		broker.Open(client.Config())
		listed, problem := broker.ListGroups(&sarama.ListGroupsRequest{})
		if problem != nil {
			return nil, problem
		}
		if _, known := listed.Groups[words[1]]; !known {
			continue
		}
		described, problem := broker.DescribeGroups(&sarama.DescribeGroupsRequest{Groups: []string{words[1]}})
		if problem != nil {
			return nil, problem
		}
		if described.Groups[0].Err != sarama.ErrNoError {
			return nil, described.Groups[0].Err
		}
		request := &sarama.OffsetFetchRequest{ConsumerGroup: words[1], Version: 1}
		total := int64(0)
		for each := int32(0); each < 2; each++ {
			request.AddPartition(words[0], each)
		}
		committed, problem := broker.FetchOffset(request)
		if problem != nil {
			return nil, problem
		}
		for each := int32(0); each < 2; each++ {
			last, problem := end(client, words[0], each)
			if problem != nil {
				return nil, problem
			}
			total += last - committed.GetBlock(words[0], each).Offset
		}
		return []string{fmt.Sprint(total)}, nil
	}
	return nil, fmt.Errorf("no broker knows the group %s", words[1])
}

// word reads a string with its length in front.
func word(bytes []byte) (string, []byte) {
	size := int(binary.BigEndian.Uint16(bytes))
	return string(bytes[2 : 2+size]), bytes[2+size:]
}

// committed reads the coordinators' own topic, and so learns what groups commit.
func committed(words []string) ([]string, error) {
	client, problem := connect()
	if problem != nil {
		return nil, problem
	}
	defer client.Close()
	consumer, problem := sarama.NewConsumerFromClient(client)
	if problem != nil {
		return nil, problem
	}
	partitions, problem := client.Partitions("__consumer_offsets")
	if problem != nil {
		return nil, problem
	}
	found := map[uint32]uint64{}
	records := make(chan *sarama.ConsumerMessage, 1000)
	for _, each := range partitions {
		reader, problem := consumer.ConsumePartition("__consumer_offsets", each, sarama.OffsetOldest)
		if problem != nil {
			return nil, problem
		}
		defer reader.Close()
		go func() {
			for record := range reader.Messages() {
				records <- record
			}
		}()
	}
	timer := time.After(20 * time.Second)
	for len(found) < 2 {
		select {
		case record := <-records:
			if binary.BigEndian.Uint16(record.Key) > 1 || record.Value == nil {
				continue // of a member, or a deletion
			}
			group, rest := word(record.Key[2:])
			topic, rest := word(rest)
			if group == words[1] && topic == words[0] {
				found[binary.BigEndian.Uint32(rest)] = binary.BigEndian.Uint64(record.Value[2:])
			}
		case <-timer:
			return nil, fmt.Errorf("%d partitions of the group in __consumer_offsets", len(found))
		}
	}
	return []string{fmt.Sprint(found[0]), fmt.Sprint(found[1])}, nil
}

func main() {
	serve(map[string]step{"describe": describe, "lag": lag, "committed": committed})
}
