//! One process of `s3`: the servers, or one of their clients.
use super::client::Client;
use super::server::Servers;
use super::{Addresses, Job, Step};
use crate::measure::Measured;
use crate::worker::Work;
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The reply of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Addresses of the servers, in the reply of the server process only.
    pub addresses: Option<Addresses>,
    /// Measurements of the phase, in replies of clients.
    pub measured: Measured,
}

/// The state of a process.
pub struct Worker(Role);

enum Role {
    Servers(Servers),
    Client(Box<Client>),
}

impl Work for Worker {
    type Job = Job;
    type Step = Step;
    type Done = Done;

    fn begin(job: Job) -> Result<Self> {
        Ok(Self(match job {
            Job::Serve(job) => Role::Servers(Servers::start(&job)?),
            Job::Client(job) => Role::Client(Box::new(Client::new(job)?)),
        }))
    }

    fn take(&mut self, step: Step) -> Result<Done> {
        match (&mut self.0, step) {
            (Role::Servers(servers), Step::Locate) => {
                Ok(Done { addresses: Some(servers.addresses.clone()), ..Done::default() })
            }
            (Role::Servers(_), _) => Err(Error::new(ErrorKind::Invalid, "a step of a client")),
            (Role::Client(client), step) => {
                client.run(step).map(|measured| Done { addresses: None, measured })
            }
        }
    }
}
