//! rdkafka, librdkafka for Rust. Steps from stdin, answers to stdout; see tests/museum/contract.py.
use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

type Outcome = Result<Vec<String>, Box<dyn Error>>;

const TIMEOUT: Duration = Duration::from_secs(30);

fn config() -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", std::env::args().nth(1).unwrap_or_default());
    settings
}

fn consumer(group: &str) -> Result<BaseConsumer, Box<dyn Error>> {
    Ok(config()
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("session.timeout.ms", "6000")
        .set("topic.metadata.refresh.interval.ms", "1000")
        .create()?)
}

fn value(record: &BorrowedMessage) -> String {
    String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned()
}

fn produce(topic: &str, codec: &str, count: i32) -> Outcome {
    let producer: BaseProducer = config().set("compression.type", codec).set("linger.ms", "20").create()?;
    for number in 0..count {
        let (key, value) = (format!("key-{number}"), format!("value-{number}"));
        let record = BaseRecord::to(topic).partition(number % 2).key(&key).payload(&value);
        producer.send(record).map_err(|(problem, _)| problem)?;
    }
    Ok(producer.flush(TIMEOUT).map(|_| vec![])?)
}

fn take(consumer: &BaseConsumer, count: usize) -> Outcome {
    let until = Instant::now() + TIMEOUT;
    let mut found = vec![];
    while found.len() < count {
        if Instant::now() > until {
            return Err(format!("{} records of {count}", found.len()).into());
        }
        if let Some(record) = consumer.poll(Duration::from_millis(200)) {
            found.push(value(&record?));
        }
    }
    Ok(found)
}

fn read(topic: &str, partitions: &[i32], from: i64, count: usize) -> Outcome {
    let consumer = consumer("unused")?;
    let mut wanted = TopicPartitionList::new();
    for each in partitions {
        wanted.add_partition_offset(topic, *each, Offset::Offset(from))?;
    }
    consumer.assign(&wanted)?;
    take(&consumer, count)
}

fn group(topic: &str, group: &str, count: usize) -> Outcome {
    let consumer = consumer(group)?;
    consumer.subscribe(&[topic])?;
    let found = take(&consumer, count)?;
    consumer.commit_consumer_state(CommitMode::Sync)?;
    Ok(found)
}

fn follow(topic: &str, group: &str) -> Outcome {
    let is_over = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, is_over.clone())?;
    let consumer = consumer(group)?;
    consumer.subscribe(&[topic])?;
    while !is_over.load(Ordering::Relaxed) {
        if let Some(record) = consumer.poll(Duration::from_millis(100)) {
            let record = record?;
            let (partition, offset) = (record.partition(), record.offset());
            println!("{{\"partition\":{partition},\"offset\":{offset},\"value\":{:?}}}", value(&record));
            std::io::stdout().flush()?;
            consumer.commit_message(&record, CommitMode::Sync)?;
        }
    }
    drop(consumer); // which leaves the group
    std::process::exit(0)
}

fn offsets(topic: &str) -> Outcome {
    let (first, next) = consumer("unused")?.fetch_watermarks(topic, 0, TIMEOUT)?;
    Ok(vec![first.to_string(), next.to_string()])
}

fn admin() -> Result<(AdminClient<DefaultClientContext>, AdminOptions), Box<dyn Error>> {
    let options = AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT));
    Ok((config().create()?, options))
}

fn create(topic: &str) -> Outcome {
    let (admin, options) = admin()?;
    let wanted = NewTopic::new(topic, 3, TopicReplication::Fixed(1));
    for outcome in futures::executor::block_on(admin.create_topics(&[wanted], &options))? {
        outcome.map_err(|(_, code)| code)?;
    }
    Ok(vec![])
}

fn delete(topic: &str) -> Outcome {
    let (admin, options) = admin()?;
    for outcome in futures::executor::block_on(admin.delete_topics(&[topic], &options))? {
        outcome.map_err(|(_, code)| code)?;
    }
    Ok(vec![])
}

fn transact(topic: &str, id: &str) -> Outcome {
    let producer: BaseProducer = config().set("transactional.id", id).create()?;
    producer.init_transactions(TIMEOUT)?;
    for outcome in ["aborted", "committed"] {
        producer.begin_transaction()?;
        producer.send(BaseRecord::to(topic).partition(0).key("key").payload(outcome)).map_err(|(problem, _)| problem)?;
        producer.flush(TIMEOUT)?;
        match outcome {
            "aborted" => producer.abort_transaction(TIMEOUT)?,
            _ => producer.commit_transaction(TIMEOUT)?,
        }
    }
    Ok(vec![])
}

fn run(words: &[&str]) -> Outcome {
    match words {
        ["produce", topic, codec, count] => produce(topic, codec, count.parse()?),
        ["read", topic, count] => read(topic, &[0, 1], 0, count.parse()?),
        ["seek", topic, offset] => read(topic, &[0], offset.parse()?, 1),
        ["group", topic, name, count] => group(topic, name, count.parse()?),
        ["follow", topic, name] => follow(topic, name),
        ["offsets", topic] => offsets(topic),
        ["create", topic] => create(topic),
        ["delete", topic] => delete(topic),
        ["transact", topic, id] => transact(topic, id),
        _ => Err("no such step".into()),
    }
}

fn main() {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        match run(&words) {
            Ok(values) => println!("{{\"ok\":true,\"values\":{values:?}}}"),
            Err(problem) => println!("{{\"ok\":false,\"error\":{:?}}}", problem.to_string()),
        }
    }
}
