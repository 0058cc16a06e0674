package ibv

// vendorSIW is the ID that Linux's siw, iWARP in software, has made up. What libsiw and siw do not do, although it
// looks as if they did (Linux 6.1, drivers/infiniband/sw/siw):
//
//   - The device knows memory by its address in the process. It ignores any other one that is asked for
//     (siw_reg_user_mr).
//   - The end of a connection raises no event that the last receive has completed. All work requests have completed
//     when ibv_modify_qp to ERR returns, and those that are posted later never do (siw_post_send).
//   - ibv_query_qp leaves the state out: see stateOf.
//   - A read of no bytes returns memory of the peer's last work request, or ends the connection, if the peer's send
//     queue is busy (siw_activate_tx leaves the old length there).
//   - An object whose queue gets the offset 0x90000 cannot be created, because libsiw takes it for no offset
//     (SIW_INVAL_UOBJ_KEY).
const vendorSIW = 0x626d74

// siw reports whether the device is one of siw.
func (d *Device) siw() bool {
	return d.attr.VendorID == vendorSIW && d.info.Transport == TransportIWARP
}

// check reports what is wrong with memory that is about to be registered.
func (mr *MR) check() error {
	if err := mr.access.checkMemory(); err != nil {
		return err
	}
	if mr.iova == uint64(mr.addr) && mr.access&ZeroBased == 0 || !mr.pd.dev.siw() {
		return nil
	}
	return &UnsupportedError{Feature: "memory that the device knows by other addresses than the process",
		Need: "a device that maps them", Have: mr.pd.dev.Name() + ", whose driver siw ignores them"}
}

// restsAtOnce reports whether ibv_modify_qp to ERR returns when all work requests of the queue pair have completed, and
// those that are posted later do not complete.
func (d *Device) restsAtOnce() bool { return d.siw() }

// hasLastEvent reports whether the device raises EventQPLastWQEReached.
func (d *Device) hasLastEvent() bool { return !d.softRoCE() && !d.siw() }

// coverCQE is how many entries a CQ has whose queue is longer than 0x90000 bytes. An entry has 32.
const coverCQE = 0x90000/32 + 1

// cover makes a CQ that has the offset 0x90000 within its queue, so that no other object can begin there. Without it a
// program could have about 13 queue pairs of the default size.
func (d *Device) cover() {
	if d.siw() {
		d.covered, _ = d.v.CreateCQ(d.handle, coverCQE, 0, 0, 0) // without it the device still works
	}
}

// uncover undoes cover, before the context may be closed.
func (d *Device) uncover() error {
	if d.covered == 0 {
		return nil
	}
	err := d.v.DestroyCQ(d.covered)
	if err == nil {
		d.covered = 0
	}
	return err
}
