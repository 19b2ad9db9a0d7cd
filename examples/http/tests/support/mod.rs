//! The service in this process or in its own, a client, and a look into the topic.

use std::process::Stdio;
use std::time::Duration;

use orders_http::TOPIC;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use ruststream::BoxError;
use ruststream_rdkafka::{KafkaBroker, KafkaPublisher};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};

/// How long a test waits for something that must happen: generous, because machines that run tests are slow.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// How often a condition is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(10);

const PARTITIONS: u16 = 4;

/// Runs what blocks its thread.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(work).await.unwrap()
}

/// The service in this process.
pub(crate) struct Service {
    pub(crate) kafka: KafkaBroker,
    pub(crate) client: Client,
    publisher: KafkaPublisher,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinSet<Result<(), BoxError>>,
}

impl Service {
    pub(crate) async fn start(kafka: KafkaBroker) -> Self {
        kafka.create_topic(TOPIC, PARTITIONS).await.unwrap();
        let publisher = orders_http::publisher(&kafka).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel();
        let mut serving = JoinSet::new();
        serving.spawn(orders_http::serve(listener, publisher.clone(), async {
            let _ = stopped.await;
        }));
        Self {
            kafka,
            client: Client::new(address),
            publisher,
            stop: Some(stop),
            serving,
        }
    }

    /// Begins the end.
    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    pub(crate) async fn ended(&mut self) -> Result<(), BoxError> {
        let ended = timeout(SOON, self.serving.join_next()).await;
        ended.expect("an end").unwrap().unwrap()
    }

    pub(crate) async fn until_unconfirmed(&self, count: usize) {
        let deadline = Instant::now() + SOON;
        while self.publisher.unconfirmed() != count {
            assert!(Instant::now() < deadline, "{:?}", self.publisher);
            sleep(POLL).await;
        }
    }
}

/// The service as a program.
pub(crate) struct Program {
    pub(crate) client: Client,
    child: Child,
}

impl Program {
    pub(crate) async fn start(servers: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orders-http"));
        command
            .args(["--listen", "127.0.0.1:0"])
            .env_remove("KAFKA_BOOTSTRAP_SERVERS")
            .envs(servers.map(|servers| ("KAFKA_BOOTSTRAP_SERVERS", servers)))
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some(address) = line.strip_prefix("listening on http://") {
                    return address.to_owned();
                }
            }
            panic!("it ended before it listened")
        };
        let address = timeout(SOON, address).await.expect("an address");
        Self {
            client: Client::new(address),
            child,
        }
    }

    pub(crate) async fn terminate(&self) {
        let pid = self.child.id().expect("a running program").to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(sent.unwrap().success());
    }

    pub(crate) async fn exit_code(&mut self) -> i32 {
        let status = timeout(SOON, self.child.wait()).await.expect("an end");
        status.unwrap().code().expect("no signal ended it")
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    address: String,
    agent: ureq::Agent,
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: String,
    content_type: Option<String>,
}

pub(crate) fn order(id: u64, customer: &str) -> Value {
    json!({ "id": id, "customer": customer, "item": "book", "total": 12.5 })
}

impl Client {
    fn new(address: String) -> Self {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(SOON))
            // A connection of its own for each request.
            .max_idle_connections(0)
            .build()
            .new_agent();
        Self { address, agent }
    }

    pub(crate) async fn order(&self, id: u64, customer: &str) -> Answer {
        self.post(order(id, customer).to_string()).await
    }

    pub(crate) async fn post(&self, body: String) -> Answer {
        let url = format!("http://{}/orders", self.address);
        let request = self.agent.post(url).content_type("application/json");
        blocking(move || Answer::read(request.send(body))).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let request = self.agent.get(format!("http://{}{path}", self.address));
        blocking(move || Answer::read(request.call())).await
    }

    /// Sends a request that announces `length` bytes, with `body`, and waits for nothing.
    pub(crate) async fn begin(&self, length: usize, body: &str) -> TcpStream {
        let request = format!(
            "POST /orders HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}",
            self.address
        );
        let mut connection = TcpStream::connect(&self.address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        connection
    }

    /// Waits until it accepts no more connections.
    pub(crate) async fn until_refused(&self) {
        let deadline = Instant::now() + SOON;
        while TcpStream::connect(&self.address).await.is_ok() {
            assert!(Instant::now() < deadline, "it still accepts connections");
            sleep(POLL).await;
        }
    }
}

impl Answer {
    fn read(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Self {
        let mut response = response.unwrap();
        let header = |name| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
        Self {
            status: response.status().as_u16(),
            retry_after: header("retry-after"),
            content_type: header("content-type"),
            body: response.body_mut().read_to_string().unwrap(),
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Partition and offset of an order that was confirmed.
    pub(crate) fn written(&self) -> (i32, i64) {
        assert_eq!(self.status, 201, "{self:?}");
        let body = self.json();
        let partition = body["partition"].as_i64().unwrap();
        (partition as i32, body["offset"].as_i64().unwrap())
    }

    /// Status, and whether the order may be in the topic all the same.
    pub(crate) fn problem(&self) -> (u16, bool) {
        assert_eq!(
            self.content_type.as_deref(),
            Some("application/problem+json"),
            "{self:?}"
        );
        let body = self.json();
        assert_eq!(body["status"], self.status);
        assert!(body["detail"].is_string(), "{self:?}");
        (self.status, body["may_be_persisted"].as_bool().unwrap())
    }
}

#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: String,
    pub(crate) payload: Value,
}

/// Everything in the topic.
pub(crate) async fn read(servers: &str) -> Vec<Read> {
    let servers = servers.to_owned();
    blocking(move || read_all(&servers)).await
}

fn read_all(servers: &str) -> Vec<Read> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("group.id", "a look")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .create()
        .unwrap();
    let mut partitions = TopicPartitionList::new();
    for partition in 0..i32::from(PARTITIONS) {
        let added = partitions.add_partition_offset(TOPIC, partition, Offset::Beginning);
        added.unwrap();
    }
    consumer.assign(&partitions).unwrap();
    let deadline = Instant::now() + SOON;
    let (mut records, mut ended) = (Vec::new(), 0);
    while ended < PARTITIONS {
        assert!(Instant::now() < deadline, "{ended} partitions were read");
        match consumer.poll(POLL) {
            Some(Ok(message)) => records.push(Read {
                partition: message.partition(),
                offset: message.offset(),
                key: String::from_utf8(message.key().unwrap().to_vec()).unwrap(),
                payload: serde_json::from_slice(message.payload().unwrap()).unwrap(),
            }),
            Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => panic!("{error}"),
            None => {}
        }
    }
    records
}
