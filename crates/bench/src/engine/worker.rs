//! One process of `engine`: the engine, or one of its clients.
use super::client::Client;
use super::server::Server;
use super::{Addresses, Job, Step};
use crate::measure::Measured;
use crate::worker::Work;
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The reply of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Addresses of the engine, in its own reply only.
    pub addresses: Option<Addresses>,
    /// Measurements of the phase, in replies of clients.
    pub measured: Measured,
}

/// The state of a process.
pub struct Worker(Role);

enum Role {
    Server(Server),
    Client(Box<Client>),
}

impl Work for Worker {
    type Job = Job;
    type Step = Step;
    type Done = Done;

    fn begin(job: Job) -> Result<Self> {
        Ok(Self(match job {
            Job::Serve(shared) => Role::Server(Server::start(&shared)?),
            Job::Client(job) => Role::Client(Box::new(Client::new(job)?)),
        }))
    }

    fn take(&mut self, step: Step) -> Result<Done> {
        match (&mut self.0, step) {
            (Role::Server(server), Step::Locate) => {
                Ok(Done { addresses: Some(server.addresses.clone()), ..Done::default() })
            }
            (Role::Server(_), _) => Err(Error::new(ErrorKind::Invalid, "a step of a client")),
            (Role::Client(client), step) => {
                client.run(step).map(|measured| Done { addresses: None, measured })
            }
        }
    }
}
