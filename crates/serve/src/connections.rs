//! Open connections. When there are too many, one that is idle makes room, so that silent clients cannot keep others out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The open connections, oldest first.
#[derive(Default)]
pub struct Connections {
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
    next: AtomicUsize,
}

/// A connection.
#[derive(Default)]
pub struct Connection {
    /// Number of requests that have arrived as a whole and are being answered.
    busy: AtomicUsize,
    /// Told when the connection must make room.
    pub closed: Notify,
}

/// Removes a connection when it is dropped.
pub struct Open {
    all: Arc<Connections>,
    id: u64,
    /// The connection.
    pub connection: Arc<Connection>,
}

impl Connections {
    /// Adds a connection if there are fewer than `most`, or if an idle one can make room. Returns `None` if all are busy.
    pub fn open(self: &Arc<Self>, most: usize) -> Option<Open> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= most {
            let idle = open.iter().find(|(_, one)| one.busy.load(Ordering::Relaxed) == 0).map(|(&id, _)| id)?;
            if let Some(connection) = open.remove(&idle) {
                connection.closed.notify_one();
            }
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed) as u64;
        let connection = Arc::new(Connection::default());
        open.insert(id, Arc::clone(&connection));
        Some(Open { all: Arc::clone(self), id, connection })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.all.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// Marks a connection as busy until it is dropped. While a request still arrives, its connection counts as idle, so that slow
/// senders cannot keep others out.
pub struct Busy(Arc<Connection>);

impl Busy {
    /// Marks a connection as busy.
    pub fn new(connection: &Arc<Connection>) -> Self {
        connection.busy.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connection))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_makes_room_and_a_busy_one_does_not() {
        let all = Arc::new(Connections::default());
        let (first, second) = (all.open(2).unwrap(), all.open(2).unwrap());
        let busy = Busy::new(&first.connection);
        // The second is idle.
        let third = all.open(2).unwrap();
        let other = Busy::new(&third.connection);
        assert!(all.open(2).is_none());
        drop(busy);
        assert!(all.open(2).is_some());
        drop((second, other));
    }
}
