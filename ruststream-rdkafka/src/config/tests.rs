use super::*;

fn given(properties: &[(&str, &str)]) -> Given {
    Given {
        bootstrap: "kafka:9092".to_owned(),
        properties: properties
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        group: None,
        group_instance: None,
        commit: Commit::Tracked,
        start: None,
        producer_properties: Vec::new(),
        max_unconfirmed: 1,
    }
}

fn problems(given: &Given) -> String {
    let problems = given.parse("Kafka at kafka:9092").expect_err("problems");
    problems
        .iter()
        .map(|problem| problem.message().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

fn consumer(given: &Given) -> ClientConfig {
    given.parse("Kafka").expect("no problem").consumer("billing", 4)
}

#[test]
fn what_the_adapter_owns_cannot_be_set() {
    let given = given(&[
        ("bootstrap.servers", "other:9092"),
        ("group.id", "billing"),
        ("group.instance.id", "pod-1"),
        ("enable.auto.offset.store", "true"),
        ("enable.auto.commit", "false"),
        ("enable.partition.eof", "true"),
    ]);
    insta::assert_snapshot!(problems(&given), @r#"
    `bootstrap.servers` is given to `KafkaBroker::new`, not to `set`
    `group.id` is given with `.group(..)`, not with `set`
    `group.instance.id` is given with `.group_instance_id(..)`, not with `set`
    `enable.auto.offset.store=true` would move positions past records that no handler has seen: remove it; `.commit(Commit::Auto)` stores the position of what is handed to its handler
    `enable.auto.commit=false` would never commit what was settled: remove it; positions are committed every `auto.commit.interval.ms`, and only those that were settled
    `enable.partition.eof=true` makes librdkafka 2.12 skip records (its issue 4844): remove it
    "#);
}

#[test]
fn contradictions_are_reported_all_at_once() {
    let mut given = given(&[
        ("partition.assignment.strategy", "range,cooperative-sticky"),
        ("auto.offset.reset", "latest"),
        ("fetch.wait.max.ms", "soon"),
        ("fetch.wait.min.ms", "1"),
        ("ssl.key.password", "hunter2"),
        ("sasl.pasword", "hunter2"),
    ]);
    given.start = Some(StartPosition::Earliest);
    given.bootstrap = " ".to_owned();
    let text = problems(&given);
    assert!(!text.contains("hunter2"), "{text}");
    insta::assert_snapshot!(text, @r#"
    no bootstrap servers: name at least one, as in `localhost:9092`
    `auto.offset.reset=latest` contradicts `.start(Earliest)`: keep one of the two
    `partition.assignment.strategy=range,cooperative-sticky` mixes eager and cooperative assignors: name one kind only
    `fetch.wait.max.ms` is refused by librdkafka: Invalid value for configuration property "fetch.wait.max.ms"
    `fetch.wait.min.ms` is refused by librdkafka: No such configuration property: "fetch.wait.min.ms"
    `sasl.pasword` is refused by librdkafka: No such configuration property: "sasl.pasword"
    `ssl.key.password` has a value that librdkafka refuses
    "#);
}

#[test]
fn the_next_generation_protocol_leaves_timing_and_assignment_to_the_broker() {
    let given = given(&[
        ("group.protocol", "consumer"),
        ("session.timeout.ms", "6000"),
        ("heartbeat.interval.ms", "1000"),
        ("partition.assignment.strategy", "cooperative-sticky"),
    ]);
    insta::assert_snapshot!(problems(&given), @r#"
    `session.timeout.ms` is decided by the broker with `group.protocol=consumer`: remove it, or use `group.protocol=classic`
    `heartbeat.interval.ms` is decided by the broker with `group.protocol=consumer`: remove it, or use `group.protocol=classic`
    `partition.assignment.strategy` is decided by the broker with `group.protocol=consumer`: remove it, or use `group.protocol=classic`
    "#);
}

#[test]
fn assignments_change_as_the_settings_say() {
    let protocol =
        |properties: &[(&str, &str)]| given(properties).parse("Kafka").expect("no problem").protocol;
    assert_eq!(protocol(&[]), Protocol::Incremental);
    assert_eq!(protocol(&[("group.protocol", "CONSUMER")]), Protocol::Incremental);
    assert_eq!(
        protocol(&[("partition.assignment.strategy", "range, roundrobin")]),
        Protocol::Eager
    );
    assert_eq!(
        protocol(&[("partition.assignment.strategy", "cooperative-sticky")]),
        Protocol::Incremental
    );
}

#[test]
fn defaults_hold_until_the_user_says_otherwise() {
    let config = consumer(&given(&[]));
    assert_eq!(config.get("group.id"), Some("billing"));
    assert_eq!(config.get("fetch.queue.backoff.ms"), Some("10"));
    assert_eq!(config.get("auto.offset.reset"), Some("earliest"));
    assert_eq!(config.get("enable.auto.offset.store"), Some("false"));
    assert_eq!(
        config.get("partition.assignment.strategy"),
        Some("cooperative-sticky")
    );
    let config = consumer(&given(&[
        ("fetch.queue.backoff.ms", "1000"),
        ("auto.offset.reset", "error"),
        ("group.protocol", "consumer"),
    ]));
    assert_eq!(config.get("fetch.queue.backoff.ms"), Some("1000"));
    assert_eq!(config.get("auto.offset.reset"), Some("error"));
    assert_eq!(config.get("partition.assignment.strategy"), None);
}

#[test]
fn the_prefetch_budget_is_split_among_partitions() {
    let settings = given(&[]).parse("Kafka").expect("no problem");
    let limit = |partitions| {
        settings
            .consumer("billing", partitions)
            .get("queued.max.messages.kbytes")
            .map(str::to_owned)
    };
    assert_eq!(limit(1).as_deref(), Some("65536"));
    assert_eq!(limit(4).as_deref(), Some("16384"));
    assert_eq!(limit(1_000).as_deref(), Some("2048"));
    let settings = given(&[("queued.max.messages.kbytes", "100")])
        .parse("Kafka")
        .expect("no problem");
    assert_eq!(
        settings.consumer("billing", 4).get("queued.max.messages.kbytes"),
        Some("100")
    );
}

#[test]
fn a_client_that_only_asks_joins_no_group() {
    let mut given = given(&[("group.protocol", "consumer"), ("client.id", "me")]);
    given.group_instance = Some("pod-1".to_owned());
    let config = given.parse("Kafka").expect("no problem").probe();
    assert_eq!(config.get("client.id"), Some("me"));
    assert!(
        ["group.id", "group.instance.id"]
            .iter()
            .all(|key| config.get(key).is_none())
    );
}

#[test]
fn drains_must_end_before_the_group_goes_on_alone() {
    let settings = given(&[("max.poll.interval.ms", "10000")])
        .parse("Kafka")
        .expect("no problem");
    let mut request = SubscribeRequest::new("bill", "orders", "billing");
    assert_eq!(settings.check(&request), None);
    request.drain_timeout = Duration::from_secs(10);
    let problem = settings.check(&request).expect("a problem");
    insta::assert_snapshot!(problem, @r#"subscription bill: the drain timeout (10s) reaches `max.poll.interval.ms` (10s), after which the group goes on without this member: shorten the one or raise the other"#);
}
