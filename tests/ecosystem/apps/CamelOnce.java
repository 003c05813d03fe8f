import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.kafka.KafkaConstants;
import org.apache.camel.component.kafka.consumer.KafkaManualCommit;
import org.apache.camel.main.Main;
import org.apache.camel.processor.idempotent.kafka.KafkaIdempotentRepository;

/** Each key of a topic once into another one, in capital letters; a third topic remembers the keys: SERVERS SOURCE TARGET SEEN. */
public class CamelOnce {
    private static boolean failed;

    public static void main(String[] arguments) throws Exception {
        String servers = "brokers=" + arguments[0];
        String source = "kafka:" + arguments[1] + "?" + servers + "&groupId=camel-" + arguments[1]
            + "&autoOffsetReset=earliest&autoCommitEnable=false&allowManualCommit=true&breakOnFirstError=true";
        String target = "kafka:" + arguments[2] + "?" + servers + "&transactionalId=camel-" + arguments[2];
        Main main = new Main();
        main.bind("seen", new KafkaIdempotentRepository(arguments[3], arguments[0]));
        main.configure().addRoutesBuilder(new RouteBuilder() {
            @Override
            public void configure() {
                from(source)
                    .idempotentConsumer(header(KafkaConstants.KEY)).idempotentRepository("seen")
                        .setBody(exchange -> exchange.getMessage().getBody(String.class).toUpperCase())
                        .to(target)
                        .process(exchange -> failOnce(exchange.getMessage().getBody(String.class)))
                    .end()
                    .process(exchange -> exchange.getMessage()
                        .getHeader(KafkaConstants.MANUAL_COMMIT, KafkaManualCommit.class).commit());
            }
        });
        main.run();
    }

    /** One record fails behind the send; its transaction is aborted, and the consumer goes back to it. */
    private static void failOnce(String word) {
        if (word.equals("VALUE-7") && !failed) {
            failed = true;
            throw new IllegalStateException(word + " fails the first time");
        }
    }
}
