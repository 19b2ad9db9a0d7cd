//! A broker from environment variables.

use ruststream::{Error, Problem};

use crate::KafkaBroker;

const PREFIX: &str = "KAFKA_";

/// Makes the broker that `variables` describe; see [`KafkaBroker::from_env`].
pub(crate) fn broker(variables: impl Iterator<Item = (String, String)>) -> Result<KafkaBroker, Error> {
    let mut properties: Vec<(String, String)> = variables
        .filter_map(|(name, value)| {
            let name = name.strip_prefix(PREFIX)?;
            Some((name.to_ascii_lowercase().replace('_', "."), value))
        })
        .filter(|(name, _)| !name.is_empty())
        .collect();
    properties.sort(); // the order of an environment is nobody's decision
    let take = |key: &str, from: &mut Vec<(String, String)>| {
        let at = from.iter().position(|(name, _)| name == key)?;
        Some(from.remove(at).1)
    };
    let Some(servers) =
        take("bootstrap.servers", &mut properties).filter(|servers| !servers.trim().is_empty())
    else {
        let message =
            "`KAFKA_BOOTSTRAP_SERVERS` is not set: name at least one broker, as in `localhost:9092`";
        return Err(Error::startup(vec![Problem::new(
            "Kafka, from the environment",
            message,
        )]));
    };
    let mut broker = KafkaBroker::new(servers);
    if let Some(group) = take("group.id", &mut properties) {
        broker = broker.group(group);
    }
    if let Some(instance) = take("group.instance.id", &mut properties) {
        broker = broker.group_instance_id(instance);
    }
    Ok(properties
        .into_iter()
        .fold(broker, |broker, (key, value)| broker.set(key, value)))
}

#[cfg(test)]
mod tests {
    use ruststream::ErrorKind;

    use super::*;

    fn variables(all: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
        all.iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect::<Vec<_>>()
            .into_iter()
    }

    #[test]
    fn variables_become_properties_and_secrets_stay_hidden() {
        let broker = broker(variables(&[
            ("KAFKA_SASL_PASSWORD", "hunter2"),
            ("KAFKA_BOOTSTRAP_SERVERS", "kafka:9092"),
            ("KAFKA_SECURITY_PROTOCOL", "sasl_ssl"),
            ("KAFKA_GROUP_ID", "billing"),
            ("HOME", "/root"),
        ]))
        .unwrap();
        let text = format!("{broker:?}");
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(
            text,
            "KafkaBroker { bootstrap_servers: \"kafka:9092\", group: Some(\"billing\"), group_instance_id: None, \
             commit: Tracked, start: None, properties: [(\"sasl.password\", \"***\"), \
             (\"security.protocol\", \"sasl_ssl\")], producer_properties: [], .. }"
        );
    }

    #[test]
    fn a_missing_address_is_named_with_its_variable() {
        let error = broker(variables(&[("KAFKA_SASL_PASSWORD", "x")])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Startup);
        assert!(
            error.to_string().contains("`KAFKA_BOOTSTRAP_SERVERS` is not set"),
            "{error}"
        );
    }
}
