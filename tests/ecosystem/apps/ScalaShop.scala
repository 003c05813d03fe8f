import java.time.Duration
import java.util.Properties
import org.apache.kafka.clients.consumer.ConsumerRecord
import org.apache.kafka.streams.{KafkaStreams, StreamsConfig}
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse
import org.apache.kafka.streams.kstream.{Suppressed, TimeWindows}
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig
import org.apache.kafka.streams.processor.TimestampExtractor
import org.apache.kafka.streams.scala.ImplicitConversions._
import org.apache.kafka.streams.scala.StreamsBuilder
import org.apache.kafka.streams.scala.kstream.{KStream, KTable, Materialized, Repartitioned}
import org.apache.kafka.streams.scala.serialization.Serdes._
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers

/** Orders ("value-N", at second N) counted by shop and joined with shops by two kinds of join, and counted by windows of ten seconds:
  * SERVERS ORDERS SHOPS COUNTS JOINED WINDOWS BEGIN_MS. All exactly once.
  */
object ScalaShop {
  private def number(value: String): Int = value.substring(value.indexOf('-') + 1).toInt

  class Seconds extends TimestampExtractor {
    override def extract(record: ConsumerRecord[AnyRef, AnyRef], partitionTime: Long): Long = record.value match {
      case order: String => System.getProperty("begin").toLong + number(order) * 1000L
      case _             => record.timestamp
    }
  }

  def main(arguments: Array[String]): Unit = {
    val Array(servers, orderTopic, shopTopic, countTopic, joinTopic, windowTopic, begin) = arguments
    System.setProperty("begin", begin)
    val builder = new StreamsBuilder
    val orders: KStream[String, String] = builder.stream[String, String](orderTopic)
    val shops: KTable[String, String] =
      builder.stream[String, String](shopTopic).repartition(Repartitioned.`with`[String, String].withName("shops")).toTable
    def shopOf(order: String): String = s"key-${number(order) % 3}"

    val counts: KTable[String, Long] = orders.map((_, order) => (shopOf(order), order)).groupByKey.count()
    counts.join(shops)((count, shop) => s"$shop $count").toStream.to(countTopic)

    val byKey: KTable[String, String] = orders.repartition(Repartitioned.`with`[String, String].withName("orders")).toTable
    val joined: KTable[String, String] = byKey.join[String, String, String](
      shops,
      (order: String) => shopOf(order),
      (order: String, shop: String) => s"$order of $shop",
      Materialized.`with`[String, String, org.apache.kafka.streams.scala.ByteArrayKeyValueStore]
    )
    joined.toStream.to(joinTopic)

    orders
      .map((_, order) => ("all", order))
      .groupByKey
      .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofMinutes(1)))
      .count()
      .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded))
      .toStream
      .map((key, count) => (((key.window.start - begin.toLong) / 1000).toString, count.toString))
      .to(windowTopic)

    val settings = new Properties
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, s"scala-$orderTopic")
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers)
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2)
    settings.put(StreamsConfig.DEFAULT_TIMESTAMP_EXTRACTOR_CLASS_CONFIG, classOf[Seconds])
    settings.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, classOf[BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers])
    settings.put(StreamsConfig.STATE_DIR_CONFIG, s"state-${ProcessHandle.current.pid}")
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2")
    settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest")
    settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "6000")
    settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), "1000")
    val streams = new KafkaStreams(builder.build(), settings)
    streams.setUncaughtExceptionHandler((problem: Throwable) => {
      problem.printStackTrace()
      StreamThreadExceptionResponse.SHUTDOWN_CLIENT
    })
    sys.addShutdownHook(streams.close(Duration.ofSeconds(10)))
    streams.start()
    Thread.currentThread.join()
  }
}
