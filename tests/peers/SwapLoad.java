import java.io.File;
import java.io.FileWriter;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * The clients of a cluster whose brokers are replaced, of any release from 1.1 to 3.9, and what they saw, line by line in a ledger:
 *
 *   acked TOPIC PARTITION OFFSET VALUE      a producer was acknowledged; values are numbers, in transactions ID:NUMBER
 *   committed ID, aborted ID                a transaction ended
 *   read CONSUMER TOPIC PARTITION OFFSET VALUE
 *   state NAME                              of Kafka Streams, which counts the keys of topic "idempotent" into topic "counts"
 *   error WHO WHAT                          an exception that reached the program
 *   produced, consumed                      all producers, all consumers have ended
 *
 * Arguments: servers, ledger, folder for state, processing guarantee, and how long each producer pauses between records, in ms.
 * Producers end when a file "stop" is beside the ledger, consumers when they have read all then; Kafka Streams ends with the process.
 */
public class SwapLoad {
    static final List<String> TOPICS = Arrays.asList("acks", "idempotent", "transactional");
    static final int PARTITIONS = 3;
    static final int KEYS = 7;
    static final int RECORDS_OF_A_TRANSACTION = 6;
    static final int ABORT_EVERY = 4;

    static PrintWriter ledger;
    static String servers;
    static File stop;
    static long pauseMs;
    static volatile boolean hasProduced;
    static volatile boolean hasFailed;

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        ledger = new PrintWriter(new FileWriter(arguments[1]), true);
        stop = new File(new File(arguments[1]).getParentFile(), "stop");
        pauseMs = Long.parseLong(arguments[4]);
        KafkaStreams streams = countKeys(arguments[2], arguments[3]);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        List<Thread> consumers = Arrays.asList(start("consumer-1", SwapLoad::consume), start("consumer-2", SwapLoad::consume));
        List<Thread> producers = Arrays.asList(
            start("acks", () -> produce("acks", "acks=all", "enable.idempotence=false", "max.in.flight.requests.per.connection=1")),
            start("idempotent", () -> produce("idempotent", "enable.idempotence=true")),
            start("transactional", SwapLoad::produceTransactions));
        for (Thread each : producers) each.join();
        hasProduced = true;
        write("produced");
        for (Thread each : consumers) each.join();
        write("consumed");
    }

    interface Work {
        void run() throws Exception;
    }

    static Thread start(String name, Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable problem) {
                fail(name, problem);
            }
        }, name);
        thread.start();
        return thread;
    }

    static synchronized void write(String line) {
        ledger.println(line);
    }

    static void fail(String who, Throwable problem) {
        write("error " + who + " " + String.valueOf(problem).replace('\n', ' '));
        problem.printStackTrace();
        hasFailed = true;
    }

    static boolean isOver() {
        return hasFailed || stop.exists();
    }

    static KafkaProducer<String, String> producer(String... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("retries", Integer.MAX_VALUE);
        properties.put("linger.ms", 5);
        properties.put("request.timeout.ms", 120_000); // before 2.1 the age of a batch, too, which a busy machine exceeds
        properties.put("delivery.timeout.ms", 300_000);
        for (String each : settings) properties.put(each.split("=")[0], each.split("=")[1]);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    static void send(KafkaProducer<String, String> producer, String topic, int number, String value) {
        String key = "key-" + number % KEYS;
        producer.send(new ProducerRecord<>(topic, number % PARTITIONS, key, value), (acked, problem) -> {
            if (problem != null) fail(topic, problem);
            else write("acked " + topic + " " + acked.partition() + " " + acked.offset() + " " + value);
        });
    }

    static void produce(String topic, String... settings) throws InterruptedException {
        try (KafkaProducer<String, String> producer = producer(settings)) {
            for (int number = 0; !isOver(); number++) {
                send(producer, topic, number, String.valueOf(number));
                Thread.sleep(pauseMs);
            }
        }
    }

    static void produceTransactions() throws InterruptedException {
        try (KafkaProducer<String, String> producer = producer("transactional.id=swap-load")) {
            producer.initTransactions();
            int number = 0;
            for (int id = 0; !isOver(); id++) {
                producer.beginTransaction();
                for (int count = 0; count < RECORDS_OF_A_TRANSACTION; count++, number++) {
                    send(producer, "transactional", number, id + ":" + number);
                    Thread.sleep(pauseMs);
                }
                if (id % ABORT_EVERY == ABORT_EVERY - 1) {
                    producer.flush();
                    producer.abortTransaction();
                    write("aborted " + id);
                } else {
                    producer.commitTransaction();
                    write("committed " + id);
                }
            }
        }
    }

    @SuppressWarnings("deprecation") // poll(long) is in all releases
    static void consume() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("group.id", "readers");
        properties.put("isolation.level", "read_committed");
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", false);
        String name = Thread.currentThread().getName();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(TOPICS);
            while (!hasFailed && !(hasProduced && hasReadAll(consumer))) {
                for (ConsumerRecord<String, String> each : consumer.poll(200L)) {
                    String place = each.topic() + " " + each.partition() + " " + each.offset();
                    write("read " + name + " " + place + " " + each.value());
                }
                try {
                    consumer.commitSync();
                } catch (RebalanceInProgressException tryAgainBehindTheNextPoll) {
                    write("rebalance " + name);
                }
            }
        }
    }

    static boolean hasReadAll(KafkaConsumer<String, String> consumer) {
        List<TopicPartition> assigned = new ArrayList<>(consumer.assignment());
        if (assigned.isEmpty()) return false;
        Map<TopicPartition, Long> ends = consumer.endOffsets(assigned);
        for (TopicPartition each : assigned) if (consumer.position(each) < ends.get(each)) return false;
        return true;
    }

    @SuppressWarnings("deprecation") // that handler is in all releases
    static KafkaStreams countKeys(String folder, String guarantee) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "count-keys");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        settings.put("cache.max.bytes.buffering", 0);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("idempotent")
            .map((key, value) -> new KeyValue<>(key, value))
            .groupByKey()
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("keys-so-far")).withKeySerde(Serdes.String()))
            .toStream()
            .mapValues(String::valueOf)
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> write("state " + now));
        streams.setUncaughtExceptionHandler(
            (Thread.UncaughtExceptionHandler) (thread, problem) -> fail("streams", problem));
        return streams;
    }
}
