// A broker in a container for a test in Go: the module "kafka" of Testcontainers takes the image.
//
// Needs github.com/testcontainers/testcontainers-go/modules/kafka and github.com/twmb/franz-go, and the image of ./deploy/build-image.
package examples

import (
	"context"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestARecordComesBack(t *testing.T) {
	ctx := context.Background()
	broker, err := kafka.Run(ctx, "kafkalite")
	testcontainers.CleanupContainer(t, broker)
	if err != nil {
		t.Fatal(err)
	}
	servers, err := broker.Brokers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(servers...), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("greetings"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	sent := &kgo.Record{Topic: "greetings", Value: []byte("hello")}
	if err := client.ProduceSync(ctx, sent).FirstErr(); err != nil {
		t.Fatal(err)
	}
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	if value := string(fetches.Records()[0].Value); value != "hello" {
		t.Fatalf("%q came back", value)
	}
}
