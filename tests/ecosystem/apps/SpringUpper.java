import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultAfterRollbackProcessor;
import org.springframework.kafka.requestreply.ReplyingKafkaTemplate;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.messaging.handler.annotation.SendTo;
import org.springframework.util.backoff.FixedBackOff;

/**
 * What a topic has in capital letters into another one, each record in one transaction with its offset: one fails twice, one always
 * and becomes a dead letter. Beside it, questions in a topic with answers in another.
 *
 * <p>SERVERS SOURCE TARGET DEAD QUESTIONS ANSWERS; what they are is in system properties of these names.
 */
public class SpringUpper {
    private static final String[] NAMES = {"servers", "source", "target", "dead", "questions", "answers"};

    public static void main(String[] arguments) throws Exception {
        for (int place = 0; place < NAMES.length; place++) {
            System.setProperty(NAMES[place], arguments[place]);
        }
        AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(Beans.class);
        context.registerShutdownHook();
        @SuppressWarnings("unchecked")
        ReplyingKafkaTemplate<String, String, String> asking = context.getBean(ReplyingKafkaTemplate.class);
        if (!asking.waitForAssignment(Duration.ofSeconds(90))) {
            throw new IllegalStateException("no partition of the answers was assigned in time");
        }
        for (int number = 0; number < 5; number++) {
            ProducerRecord<String, String> question = new ProducerRecord<>(System.getProperty("questions"), "question " + number);
            System.out.println(asking.sendAndReceive(question, Duration.ofSeconds(60)).get(60, TimeUnit.SECONDS).value());
        }
        Thread.currentThread().join();
    }

    public static class Listeners {
        private final Map<String, Integer> tries = new ConcurrentHashMap<>();
        private final KafkaTemplate<String, String> transactional;

        Listeners(KafkaTemplate<String, String> transactional) {
            this.transactional = transactional;
        }

        @KafkaListener(id = "spring-${source}", topics = "${source}", containerFactory = "transactionally", concurrency = "2")
        public void upper(ConsumerRecord<String, String> record) {
            transactional.send(System.getProperty("target"), record.key(), record.value().toUpperCase());
            int tried = tries.merge(record.value(), 1, Integer::sum);
            if (record.value().equals("value-13") || record.value().equals("value-7") && tried < 3) {
                throw new IllegalStateException(record.value() + " fails");
            }
        }

        @KafkaListener(id = "answers-to-${questions}", topics = "${questions}", containerFactory = "answering")
        @SendTo
        public String answer(String question) {
            return "answer to " + question;
        }
    }

    @Configuration
    @EnableKafka
    public static class Beans {
        private static ProducerFactory<String, String> producers(String transactions) {
            DefaultKafkaProducerFactory<String, String> made = new DefaultKafkaProducerFactory<>(Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getProperty("servers"),
                ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class,
                ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class));
            if (transactions != null) {
                made.setTransactionIdPrefix(transactions);
            }
            return made;
        }

        @Bean
        public ProducerFactory<String, String> transactionalProducers() {
            return producers("spring-" + System.getProperty("target") + "-");
        }

        @Bean
        public ProducerFactory<String, String> simpleProducers() {
            return producers(null);
        }

        @Bean
        public ConsumerFactory<String, String> consumers() {
            return new DefaultKafkaConsumerFactory<>(Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getProperty("servers"),
                ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class,
                ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class,
                ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"));
        }

        @Bean
        public KafkaTemplate<String, String> transactional() {
            return new KafkaTemplate<>(transactionalProducers());
        }

        @Bean
        public ConcurrentKafkaListenerContainerFactory<String, String> transactionally() {
            ConcurrentKafkaListenerContainerFactory<String, String> made = new ConcurrentKafkaListenerContainerFactory<>();
            made.setConsumerFactory(consumers());
            made.getContainerProperties().setKafkaAwareTransactionManager(new KafkaTransactionManager<>(transactionalProducers()));
            DeadLetterPublishingRecoverer dead = new DeadLetterPublishingRecoverer(
                transactional(), (record, problem) -> new TopicPartition(System.getProperty("dead"), -1));
            made.setAfterRollbackProcessor(
                new DefaultAfterRollbackProcessor<>(dead, new FixedBackOff(50, 2), transactional(), true));
            return made;
        }

        @Bean
        public ConcurrentKafkaListenerContainerFactory<String, String> answering() {
            ConcurrentKafkaListenerContainerFactory<String, String> made = new ConcurrentKafkaListenerContainerFactory<>();
            made.setConsumerFactory(consumers());
            made.setReplyTemplate(new KafkaTemplate<>(simpleProducers()));
            return made;
        }

        @Bean
        public ReplyingKafkaTemplate<String, String, String> asking() {
            ConcurrentMessageListenerContainer<String, String> answers = answering().createContainer(System.getProperty("answers"));
            answers.getContainerProperties().setGroupId("asks-" + System.getProperty("answers"));
            return new ReplyingKafkaTemplate<>(simpleProducers(), answers);
        }

        @Bean
        public Listeners listeners() {
            return new Listeners(transactional());
        }
    }
}
