//! Kafka's jars: fetched through Maven once, then shared by all clusters of the checkout.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::config::{self, Member};
use crate::{Error, ErrorKind, files};

/// The folder of the jars, and what every data folder starts from.
#[derive(Debug, Clone)]
pub(crate) struct Jars {
    dir: PathBuf,
}

impl Jars {
    /// Finds the jars, or fetches them; parallel callers wait for one another.
    pub(crate) fn fetched(home: &Path) -> Result<Self, Error> {
        let jars = Self {
            dir: home.join("libs"),
        };
        let lock = home.join("libs.lock");
        let lock = files::lock(&lock).map_err(|e| Error::io(format!("cannot lock {}", lock.display()), e))?;
        if !jars.are_current() {
            jars.fetch(home)?;
        }
        drop(lock);
        Ok(jars)
    }

    /// A `java` command with the class path of Kafka.
    pub(crate) fn java(&self) -> Command {
        let mut command = match std::env::var_os("JAVA_HOME") {
            Some(home) if !home.is_empty() => Command::new(Path::new(&home).join("bin/java")),
            _ => Command::new("java"),
        };
        command.arg("-cp").arg(self.dir.join("*"));
        command
    }

    /// Makes an empty data folder, as Kafka's own `format` does, in less than its 0.6 s of Java.
    pub(crate) fn format(&self, data: &Path, cluster_id: &str, node_id: i32) -> io::Result<()> {
        fs::create_dir_all(data)?;
        fs::copy(self.dir.join(CHECKPOINT), data.join(CHECKPOINT))?;
        let meta = config::meta(cluster_id, node_id, &config::random_id());
        fs::write(data.join("meta.properties"), meta)
    }

    /// The jars of another version of Kafka are fetched anew; so are those of a fetch without a last step.
    fn are_current(&self) -> bool {
        fs::read_to_string(self.dir.join("pom.xml")).is_ok_and(|pom| pom == POM)
    }

    fn fetch(&self, home: &Path) -> Result<(), Error> {
        let failed = |e| Error::io(format!("cannot store Kafka's jars in {}", self.dir.display()), e);
        let new = tempfile::Builder::new()
            .prefix("libs-")
            .tempdir_in(home)
            .map_err(failed)?;
        let fresh = Self {
            dir: new.path().to_owned(),
        };
        fresh.copy_from_maven()?;
        fresh.make_checkpoint()?;
        fs::write(fresh.dir.join("pom.xml"), POM).map_err(failed)?;
        files::remove_dir(&self.dir).map_err(failed)?;
        fs::rename(new.keep(), &self.dir).map_err(failed)
    }

    fn copy_from_maven(&self) -> Result<(), Error> {
        let pom = self.dir.join("download.xml");
        fs::write(&pom, POM).map_err(|e| Error::io(format!("cannot write {}", pom.display()), e))?;
        let output = Command::new("mvn")
            .args(["-q", "-B", "-ntp", "dependency:copy-dependencies", "-f"])
            .arg(&pom)
            .arg(format!("-DoutputDirectory={}", self.dir.display()))
            .output()
            .map_err(|e| tool("Maven", "mvn", e))?;
        if output.status.success() {
            return Ok(());
        }
        let text = said(&output);
        Err(Error::new(
            ErrorKind::Jars,
            format!("Maven could not fetch Kafka's jars, see its output:\n{text}"),
        ))
    }

    /// Lets Kafka write the records that a new cluster starts with. They name features and versions, but no node and
    /// no cluster, so one file serves all of them.
    fn make_checkpoint(&self) -> Result<(), Error> {
        let failed = |e| Error::io(format!("cannot prepare Kafka in {}", self.dir.display()), e);
        let data = self.dir.join("format");
        let settings = self.dir.join("format.properties");
        let member = Member {
            id: 1,
            port: 1,
            controller_port: 2,
        };
        fs::write(&settings, config::server(member, &[member], &data, &[])).map_err(failed)?;
        let output = self
            .java()
            .args([
                "kafka.tools.StorageTool",
                "format",
                "-t",
                &config::random_id(),
                "-c",
            ])
            .arg(&settings)
            .output()
            .map_err(java_missing)?;
        if !output.status.success() {
            return Err(format_failed(&said(&output)));
        }
        fs::rename(data.join(CHECKPOINT), self.dir.join(CHECKPOINT)).map_err(failed)?;
        fs::remove_dir_all(&data).map_err(failed)
    }
}

/// The error of a `java` that could not be run.
pub(crate) fn java_missing(source: io::Error) -> Error {
    tool("Java 17 or later", "java", source)
}

fn tool(name: &str, command: &str, source: io::Error) -> Error {
    if source.kind() != io::ErrorKind::NotFound {
        return Error::io(format!("cannot run {command}"), source);
    }
    let message = format!(
        "a real Kafka needs {name}, and there is no `{command}` here: run `just setup`, or set \
         KAFKA_BOOTSTRAP_SERVERS to a Kafka that runs elsewhere"
    );
    Error::new(ErrorKind::Tool, message)
}

fn format_failed(text: &str) -> Error {
    if text.contains("UnsupportedClassVersionError") {
        let message =
            "the `java` here is too old for Kafka: install Java 17 or later, or point JAVA_HOME to it";
        return Error::new(ErrorKind::Tool, message);
    }
    Error::new(
        ErrorKind::Jars,
        format!("Kafka's storage tool failed, see its output:\n{text}"),
    )
}

fn said(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    files::last_lines(&String::from_utf8_lossy(&text), 20)
}

const POM: &str = include_str!("../pom.xml");

const CHECKPOINT: &str = "bootstrap.checkpoint";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_one_sentence_with_the_remedy() {
        let error = tool("Maven", "mvn", io::ErrorKind::NotFound.into());
        assert_eq!(error.kind(), ErrorKind::Tool);
        let text = error.to_string();
        assert!(
            text.contains("needs Maven") && text.contains("just setup"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn an_old_java_is_told_from_other_failures() {
        let old = "java.lang.UnsupportedClassVersionError: kafka/Kafka has been compiled by ...";
        assert_eq!(format_failed(old).kind(), ErrorKind::Tool);
        assert_eq!(format_failed("disk full").kind(), ErrorKind::Jars);
    }

    #[test]
    fn a_folder_without_this_pom_is_not_current() {
        let home = tempfile::tempdir().unwrap();
        let jars = Jars {
            dir: home.path().to_owned(),
        };
        assert!(!jars.are_current());
        fs::write(home.path().join("pom.xml"), POM.replace("4.", "3.")).unwrap();
        assert!(!jars.are_current());
        fs::write(home.path().join("pom.xml"), POM).unwrap();
        assert!(jars.are_current());
    }
}
