// What Sarama has had since 1.38: commits on demand, and transactions.
package main

import "github.com/IBM/sarama"

func setCommits(settings *sarama.Config) {
	settings.Consumer.Offsets.AutoCommit.Enable = false
}

func commit(session sarama.ConsumerGroupSession) {
	session.Commit()
}

func transact(words []string) ([]string, error) {
	settings := config()
	settings.Producer.Transaction.ID = words[1]
	settings.Producer.Idempotent = true
	settings.Net.MaxOpenRequests = 1
	producer, problem := sarama.NewSyncProducer([]string{bootstrap}, settings)
	if problem != nil {
		return nil, problem
	}
	defer producer.Close()
	for outcome, end := range map[string]func() error{"aborted": producer.AbortTxn, "committed": producer.CommitTxn} {
		if problem := producer.BeginTxn(); problem != nil {
			return nil, problem
		}
		record := &sarama.ProducerMessage{Topic: words[0], Key: sarama.StringEncoder("key"), Value: sarama.StringEncoder(outcome)}
		if _, _, problem := producer.SendMessage(record); problem != nil {
			return nil, problem
		}
		if problem := end(); problem != nil {
			return nil, problem
		}
	}
	return nil, nil
}
