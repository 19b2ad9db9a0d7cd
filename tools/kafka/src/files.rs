//! Where files live, and the few ways in which they are written, locked and removed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Serialize, de::DeserializeOwned};

use crate::Error;

/// The folder of everything that this crate writes, created if need be.
pub(crate) fn home() -> Result<PathBuf, Error> {
    let home = target().join("kafka");
    fs::create_dir_all(&home).map_err(|e| Error::io(format!("cannot create {}", home.display()), e))?;
    Ok(home)
}

/// Writes `value` so that a reader sees the old content or the new one, never a part.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, value)?;
    file.write_all(b"\n")?;
    file.persist(path)?;
    Ok(())
}

/// Reads what [`write_json`] wrote; `None` when there is no file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// A lock between processes. The system gives it back when its holder ends, also by a crash; nodes do not inherit it.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that another thread has forked keeps it open until it runs its
        // program. Without unlocking, only that instant is lost.
        // Fails only for a file that is not open.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Takes the lock that `path` stands for, waiting for its holder.
pub(crate) fn lock(path: &Path) -> io::Result<Lock> {
    let file = File::create(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(Lock(file))
}

/// Takes the lock if nobody holds it.
pub(crate) fn try_lock(path: &Path) -> io::Result<Option<Lock>> {
    let file = File::create(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock(file))),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Removes a folder that another process may be removing as well.
pub(crate) fn remove_dir(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The last `count` lines of a log, for error texts.
pub(crate) fn tail(path: &Path, count: usize) -> String {
    let Ok(log) = fs::read(path) else {
        return String::new();
    };
    last_lines(&String::from_utf8_lossy(&log), count)
}

pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(count);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
}

fn target() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = manifest
        .ancestors()
        .find(|dir| dir.join("Cargo.lock").exists())
        .unwrap_or(manifest);
    // A relative CARGO_TARGET_DIR counts from where cargo was called, which for the recipes is the workspace.
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => workspace.join(dir),
        _ => workspace.join("target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_back_and_a_missing_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        assert_eq!(read_json::<Vec<u16>>(&path).unwrap(), None);
        write_json(&path, &vec![1_u16, 2]).unwrap();
        assert_eq!(read_json::<Vec<u16>>(&path).unwrap(), Some(vec![1, 2]));
        fs::write(&path, "{").unwrap();
        assert!(read_json::<Vec<u16>>(&path).is_err());
    }

    #[test]
    fn a_held_lock_is_not_taken_and_a_closed_one_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = lock(&path).unwrap();
        assert!(try_lock(&path).unwrap().is_none());
        drop(held);
        assert!(try_lock(&path).unwrap().is_some());
    }

    #[test]
    fn the_tail_is_the_last_lines() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a", 2), "a");
    }
}
