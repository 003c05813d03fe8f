//! rskafka: partitions without groups. Steps from stdin, answers to stdout; see tests/museum/contract.py.
use std::collections::BTreeMap;
use std::error::Error;
use std::io::BufRead;

use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;

type Outcome = Result<Vec<String>, Box<dyn Error>>;

async fn partition(client: &Client, topic: &str, number: i32) -> Result<PartitionClient, Box<dyn Error>> {
    Ok(client.partition_client(topic, number, UnknownTopicHandling::Retry).await?)
}

async fn produce(client: &Client, topic: &str, codec: &str, count: i64) -> Outcome {
    let codec = match codec {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    };
    for number in 0..2 {
        let records = (0..count)
            .filter(|each| each % 2 == number)
            .map(|each| Record {
                key: Some(format!("key-{each}").into_bytes()),
                value: Some(format!("value-{each}").into_bytes()),
                headers: BTreeMap::new(),
                timestamp: chrono::Utc::now(),
            })
            .collect();
        partition(client, topic, number as i32).await?.produce(records, codec).await?;
    }
    Ok(vec![])
}

async fn take(client: &Client, topic: &str, number: i32, from: i64, count: usize) -> Outcome {
    let reader = partition(client, topic, number).await?;
    let mut found = vec![];
    let mut offset = from;
    while found.len() < count {
        let (records, _) = reader.fetch_records(offset, 1..1_000_000, 200).await?;
        for each in records {
            offset = each.offset + 1;
            found.push(String::from_utf8(each.record.value.unwrap_or_default())?);
        }
    }
    Ok(found)
}

async fn offsets(client: &Client, topic: &str) -> Outcome {
    let reader = partition(client, topic, 0).await?;
    let first = reader.get_offset(OffsetAt::Earliest).await?;
    let last = reader.get_offset(OffsetAt::Latest).await?;
    Ok(vec![first.to_string(), last.to_string()])
}

async fn run(client: &Client, words: &[&str]) -> Outcome {
    match words {
        ["produce", topic, codec, count] => produce(client, topic, codec, count.parse()?).await,
        ["read", topic, count] => {
            let half = count.parse::<usize>()? / 2;
            let mut found = take(client, topic, 0, 0, half).await?;
            found.extend(take(client, topic, 1, 0, half).await?);
            Ok(found)
        }
        ["seek", topic, offset] => Ok(take(client, topic, 0, offset.parse()?, 1).await?[..1].to_vec()),
        ["offsets", topic] => offsets(client, topic).await,
        ["create", topic] => {
            client.controller_client()?.create_topic(*topic, 3, 1, 20_000).await?;
            Ok(vec![])
        }
        ["delete", topic] => {
            client.controller_client()?.delete_topic(*topic, 20_000).await?;
            Ok(vec![])
        }
        _ => Err("no such step".into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_default();
    let client = ClientBuilder::new(vec![bootstrap]).build().await?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match run(&client, &words).await {
            Ok(values) => println!("{{\"ok\":true,\"values\":{values:?}}}"),
            Err(problem) => println!("{{\"ok\":false,\"error\":{:?}}}", problem.to_string()),
        }
    }
    Ok(())
}
