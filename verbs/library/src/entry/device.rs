//! The list of devices.

use super::guard::{pointer, value};
use super::objects::{DeviceObject, device};
use crate::abi::constants::NODE_CA;
use crate::abi::structs::ibv_device;
use crate::process::{Adapter, adapters};
use angara_hca::address::guid;
use angara_hca::{Errno, Result};
use libc::{c_char, c_int};
use std::sync::{Mutex, PoisonError};

/// Copies a text, with its end, as much as fits.
fn text<const N: usize>(from: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, byte) in out[..N - 1].iter_mut().zip(from.bytes()) {
        *to = byte as c_char;
    }
    out
}

fn object(index: usize, adapter: &'static Adapter) -> DeviceObject {
    let uverbs = format!("uverbs{index}");
    let device = ibv_device {
        _ops: [0; 2],
        node_type: NODE_CA,
        transport_type: 0,
        name: text(adapter.name()),
        dev_path: text(&format!("/sys/class/infiniband_verbs/{uverbs}")),
        dev_name: text(&uverbs),
        ibdev_path: text(&format!("/sys/class/infiniband/{}", adapter.name())),
    };
    DeviceObject { device, zeroes: [0; 64], adapter, index: index as i32 }
}

/// All devices, which are never freed: programs may have their pointers without a list. A child that was forked has others
/// than its parent.
fn devices() -> Result<&'static [DeviceObject]> {
    static ALL: Mutex<Option<(u32, &[DeviceObject])>> = Mutex::new(None);
    let (adapters, me) = (adapters()?, std::process::id());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, devices)) = all.filter(|(of, _)| *of == me) {
        return Ok(devices);
    }
    let devices = adapters.iter().enumerate().map(|(index, adapter)| object(index, adapter)).collect();
    let (_, devices) = *all.insert((me, Vec::leak(devices)));
    Ok(devices)
}

/// `ibv_get_device_list`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let mut found = 0;
    let list = pointer(|| {
        let devices = devices()?;
        // SAFETY: a new array of pointers, which are null.
        let list = unsafe { libc::calloc(devices.len() + 1, size_of::<*mut ibv_device>()) }.cast::<*mut ibv_device>();
        if list.is_null() {
            return Err(Errno::NOMEM);
        }
        for (index, object) in devices.iter().enumerate() {
            // SAFETY: the array has one place more than there are devices.
            unsafe { *list.add(index) = std::ptr::from_ref(object).cast_mut().cast() };
        }
        found = devices.len() as c_int;
        Ok(list)
    });
    if !count.is_null() {
        // SAFETY: see the module.
        unsafe { *count = found };
    }
    list
}

/// `ibv_free_device_list`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: made by `calloc`.
    unsafe { libc::free(list.cast()) };
}

/// `ibv_get_device_name`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn get_device_name(of: *mut ibv_device) -> *const c_char {
    // SAFETY: see the module.
    unsafe { device(of) }.device.name.as_ptr()
}

/// `ibv_get_device_guid`, in network order.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn get_device_guid(of: *mut ibv_device) -> u64 {
    // SAFETY: see the module.
    value(0, || guid(unsafe { device(of) }.adapter.node()).to_be())
}

/// `ibv_get_device_index`.
///
/// # Safety
/// See [`crate::entry`].
pub unsafe extern "C" fn get_device_index(of: *mut ibv_device) -> c_int {
    // SAFETY: see the module.
    unsafe { device(of) }.index
}
