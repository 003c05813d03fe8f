import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * What a topic has in capital letters into another one, exactly once and without an end, from its last checkpoint on: SERVERS SOURCE
 * TARGET FOLDER. Its transactional ids come from a pool, whose open transactions it asks the brokers for (ListTransactions).
 */
public class FlinkPooled {
    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[3]);
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.dir", folder.toUri().toString());
        settings.setString("execution.checkpointing.interval", "2 s");
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        lastCheckpoint(folder).ifPresent(last -> settings.setString("execution.state-recovery.path", last.toUri().toString()));
        StreamExecutionEnvironment job = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(arguments[0])
            .setTopics(arguments[1])
            .setGroupId("flink-" + arguments[1])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(arguments[0])
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(arguments[2])
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionNamingStrategy(TransactionNamingStrategy.POOLING)
            .setTransactionalIdPrefix("flink-" + arguments[2])
            .setProperty("transaction.timeout.ms", "600000")
            .build();
        job.fromSource(source, WatermarkStrategy.noWatermarks(), "words").uid("words")
            .map(word -> word.toUpperCase()).uid("capitals")
            .sinkTo(sink).uid("sink");
        job.execute();
    }

    private static Optional<Path> lastCheckpoint(Path folder) throws Exception {
        try (Stream<Path> all = Files.walk(folder)) {
            return all.filter(each -> each.endsWith("_metadata")).map(Path::getParent).max(Comparator.comparing(FlinkPooled::age));
        }
    }

    private static long age(Path checkpoint) {
        return checkpoint.toFile().lastModified();
    }
}
