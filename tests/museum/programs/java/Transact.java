import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The transactions of 0.11 and later: one is aborted, one committed. */
final class Transact {
    static List<?> transact(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", Main.bootstrap);
        settings.put("transactional.id", words[2]);
        settings.put("max.block.ms", "10000");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            for (String outcome : new String[] {"aborted", "committed"}) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(words[1], 0, "key", outcome)).get();
                if (outcome.equals("aborted")) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        return null;
    }
}
