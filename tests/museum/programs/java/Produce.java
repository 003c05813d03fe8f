import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The producer of 0.8.2 and later. */
final class Produce {
    static List<?> produce(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", Main.bootstrap);
        settings.put("acks", "all");
        settings.put("compression.type", words[2]);
        settings.put("linger.ms", "50");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            List<Future<?>> sent = new ArrayList<>();
            for (int number = 0; number < Integer.parseInt(words[3]); number++)
                sent.add(producer.send(new ProducerRecord<>(words[1], number % 2, "key-" + number, "value-" + number)));
            for (Future<?> each : sent) each.get();
        }
        return null;
    }
}
