//! Non-blocking operations, and the memory that they use until they are complete.

use super::array::At;
use super::symmetric::Symmetric;
use crate::ctx::Ctx;
use crate::error::Result;
use angara_abi::account::Class;
use bytemuck::Pod;
use std::cell::RefCell;
use std::marker::PhantomData;

/// Issues operations that are complete at the end of [`super::Context::scope`], not before. Their memory stays borrowed as long.
pub struct Scope<'s, 'env: 's> {
    ctx: &'env Ctx,
    symmetric: &'env Symmetric,
    /// What was issued before the scope began.
    before: u64,
    /// Data that comes apart from where it goes, in order.
    landings: RefCell<Vec<Landing>>,
    scope: PhantomData<&'s mut &'s ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Where an adapter may write by itself until all is complete, and where it goes then.
struct Landing {
    data: Vec<u8>,
    to: *mut u8,
}

impl<'env> Scope<'_, 'env> {
    pub(super) fn new(ctx: &'env Ctx, symmetric: &'env Symmetric) -> Self {
        Scope {
            ctx,
            symmetric,
            before: ctx.posted(),
            landings: RefCell::default(),
            scope: PhantomData,
            env: PhantomData,
        }
    }

    /// Begins to write `data` to the elements from `to` on.
    pub fn put<T: Pod>(&self, to: At<'env, T>, data: &'env [T]) -> Result<()> {
        let own = to.own(data.len())?;
        self.symmetric.called("put_nbi")?;
        let place = self.symmetric.place(own);
        // SAFETY: `data` stays as it is as long as `'env`, which ends behind the quiet of this scope.
        unsafe { self.ctx.put_nbi(Class::Put, to.pe(), place, data.as_ptr().cast(), size_of_val(data)) }
    }

    /// Begins to read the elements from `from` on. They are there behind the scope.
    pub fn get<T: Pod>(&self, from: At<'env, T>, into: &'env mut [T]) -> Result<()> {
        let (own, len) = (from.own(into.len())?, size_of_val(into));
        self.symmetric.called("get_nbi")?;
        let place = self.symmetric.place(own);
        let mut to = into.as_mut_ptr().cast::<u8>();
        if self.symmetric.job.locate(to, len).is_some() {
            // An adapter writes symmetric memory by itself, and cannot be told to stop.
            let mut landing = Landing { data: vec![0; len], to };
            to = landing.data.as_mut_ptr();
            self.landings.borrow_mut().push(landing);
        }
        // SAFETY: writable as long as `'env`, which ends behind the quiet of this scope; if that fails, what has not arrived is
        // given up.
        unsafe { self.ctx.get_nbi(Class::Get, from.pe(), to, place, len) }
    }

    /// Completes what has been issued. After an error nothing arrives any more.
    pub(super) fn complete(&self) -> Result<()> {
        self.ctx.quiet().inspect_err(|_| self.ctx.give_up_gets(self.before))?;
        for Landing { data, to } in self.landings.borrow_mut().drain(..) {
            // SAFETY: as many writable bytes, borrowed for `'env`.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
        }
        Ok(())
    }
}
