//! The connection manager: `/dev/infiniband/rdma_cm` in user space, below an unmodified librdmacm.
//!
//! librdmacm opens the device once per event channel, and writes commands to it. [`commands`] reads these and carries
//! them out on a [`manager::Manager`], which knows nothing of C: identifiers ([`id`]), what programs ask for
//! ([`requests`]) and what managers of other processes say ([`wire`], [`arrivals`]). [`desk`] is the one of this
//! process, with its descriptors.
//!
//! Every node of the torus has an address, 10.162.(n / 256).(n % 256). All other addresses are names of a host, and
//! lead to whoever listens at the port, this process first.

mod arrivals;
mod bytes;
mod commands;
pub(crate) mod desk;
mod id;
mod layout;
mod manager;
mod requests;
mod wire;

#[cfg(test)]
mod tests;
