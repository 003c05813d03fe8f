import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.utility.DockerImageName;

/**
 * A broker in a container for a test in Java: the module "kafka" of Testcontainers takes the image in cp-kafka's place.
 *
 * Needs org.testcontainers:kafka and org.apache.kafka:kafka-clients, and the image of ./deploy/build-image.
 */
public class RecordComesBack {
    private static final DockerImageName IMAGE =
        DockerImageName.parse("kafkalite").asCompatibleSubstituteFor("confluentinc/cp-kafka");

    public static void main(String[] arguments) throws Exception {
        try (ConfluentKafkaContainer broker = new ConfluentKafkaContainer(IMAGE)) {
            broker.start();
            Map<String, Object> settings = Map.of(
                "bootstrap.servers", broker.getBootstrapServers(), "group.id", "readers", "auto.offset.reset", "earliest");
            try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                producer.send(new ProducerRecord<>("greetings", "en", "hello")).get();
            }
            try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of("greetings"));
                ConsumerRecords<String, String> records = ConsumerRecords.empty();
                while (records.isEmpty()) {
                    records = consumer.poll(Duration.ofSeconds(1));
                }
                System.out.println(records.iterator().next().value());
            }
        }
    }
}
