package mlx5

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// OpenDevice opens a device, with DevX if the kernel has it.
func (v *Verbs) OpenDevice(dev handle) (handle, error) {
	return v.open(dev, abi.MLX5_IB_ALLOC_UCTX_DEVX, 0)
}

// OpensWithDevX returns true.
func (r *Rings) OpensWithDevX() bool { return true }

// OpenDevice opens a device with attributes.
func (r *Rings) OpenDevice(dev handle, attr *abi.MLX5DVContextAttr) (handle, error) {
	switch {
	case attr.Flags&^abi.MLX5_IB_ALLOC_UCTX_DEVX != 0 || attr.CompMask != 0:
		return 0, syscall.EINVAL
	case attr.Flags != 0:
		return r.v.open(dev, abi.MLX5_IB_ALLOC_UCTX_DEVX)
	}
	return r.v.OpenDevice(dev)
}

// open opens a device with the first of the flags that the kernel takes.
func (v *Verbs) open(dev handle, flags ...uint32) (handle, error) {
	d, err := get[device](v, dev)
	if err != nil {
		return 0, err
	}
	regs, lowLatency, err := registersWanted(uverbs.PageSize())
	if err != nil {
		return 0, err
	}
	for _, caps := range []uint64{abi.MLX5_LIB_CAP_4K_UAR | abi.MLX5_LIB_CAP_DYN_UAR, abi.MLX5_LIB_CAP_4K_UAR} {
		var c *context
		if c, err = v.start(dev, d, abi.MLX5IBAllocUcontextReq{TotalNumBFRegs: regs,
			NumLowLatencyBFRegs: lowLatency, MaxCQEVersion: cqeVersionV1, LibCaps: caps}, flags); err == nil {
			c.handle = v.table.add(c)
			return c.handle, nil
		}
		if err != errNoUARs { // a kernel that has them, without the ioctl, makes registers with the context
			break
		}
	}
	return 0, err
}

// start makes a context and maps its registers.
func (v *Verbs) start(h handle, d *device, q abi.MLX5IBAllocUcontextReq, flags []uint32) (*context, error) {
	f, err := v.openFile(v.root, d)
	if err != nil {
		return nil, err
	}
	c := v.newContext(h, d, f)
	for _, q.Flags = range flags {
		if err = c.get(&q); err == nil {
			break
		}
	}
	if err == nil {
		err = c.info.check()
	}
	if err == nil {
		err = c.bars.start(c)
	}
	if err == nil {
		return c, nil
	}
	if e := c.end(); e != nil {
		err = also(err, e)
	}
	return nil, err
}

// ImportDevice makes a context of the descriptor of another process's, which it then owns.
func (v *Verbs) ImportDevice(cmdFD int) (handle, error) {
	_, devices, err := v.GetDeviceList()
	if err != nil {
		return 0, err
	}
	for _, h := range devices {
		d, err := get[device](v, h)
		if err != nil {
			return 0, err
		}
		f, err := d.node.Adopt(driverID, &d.forms, cmdFD)
		if err != nil {
			continue
		}
		c := v.newContext(h, d, f)
		if c.core, err = f.QueryContext(abi.MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, uverbs.Bytes(&c.info)); err == nil {
			err = c.info.check()
		}
		if err == nil && c.info.TotBFRegs != 0 {
			err = syscall.EINVAL // as its registers are the other process's
		}
		if err == nil {
			err = c.bars.start(c)
		}
		if err != nil {
			f.Disown()
			return 0, also(unsupported(err), c.end())
		}
		c.handle = v.table.add(c)
		return c.handle, nil
	}
	return 0, syscall.ENODEV
}

// newContext returns one that has nothing yet.
func (v *Verbs) newContext(h handle, d *device, f *uverbs.File) *context {
	c := &context{v: v, dev: d, devH: h, file: f}
	c.core.AsyncFD = -1
	c.maxCQE = sync.OnceValues(c.queryMaxCQE)
	c.driver = sync.OnceValues(c.queryDriver)
	c.events.init()
	return c
}

// get makes the kernel's context. A kernel refuses a request that is longer than its own, unless the rest is zero.
func (c *context) get(q *abi.MLX5IBAllocUcontextReq) (err error) {
	for _, n := range []int{len(uverbs.Bytes(q)), getContextV1, getContextV0} {
		c.info = contextInfo{}
		c.core, err = c.file.GetContext(uverbs.Driver{In: uverbs.Bytes(q)[:n], Out: uverbs.Bytes(&c.info)})
		if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EOPNOTSUPP) {
			break
		}
	}
	return err
}

// check refuses what cannot be true, and what would make a later sum wrong.
func (i *contextInfo) check() error {
	const most = 1 << 24
	for _, f := range []struct {
		name      string
		got       uint32
		low, high uint32
	}{
		{"bf_reg_size", i.BFRegSize, 0, 2048},
		{"tot_bfregs", i.TotBFRegs, 0, mostUARs * regsPerUAR},
		{"max_sq_desc_sz", uint32(i.MaxSQDescSz), 64, 1 << 15},
		{"max_rq_desc_sz", uint32(i.MaxRQDescSz), 16, 1 << 15},
		{"max_send_wqebb", i.MaxSendWqebb, 1, most},
		{"max_recv_wr", i.MaxRecvWR, 1, most},
		{"max_srq_recv_wr", i.MaxSRQRecvWR, 0, most},
		{"num_ports", uint32(i.NumPorts), 1, 255},
		{"cqe_version", uint32(i.CQEVersion), 0, cqeVersionV1},
		{"num_uars_per_page", i.NumUarsPerPage, 0, 16},
		{"num_dyn_bfregs", i.NumDynBFRegs, 0, most},
	} {
		if f.got < f.low || f.got > f.high {
			return &uverbs.ReplyError{Command: "get_context", Field: f.name, Got: uint64(f.got),
				Want: fmt.Sprintf("%d to %d", f.low, f.high)}
		}
	}
	if n := i.BFRegSize; n&(n-1) != 0 {
		return &uverbs.ReplyError{Command: "get_context", Field: "bf_reg_size", Got: uint64(n), Want: "a power of two"}
	}
	if i.LogUARSize == 0 || i.NumUarsPerPage == 0 { // a kernel whose UARs are of its own page size
		i.NumUarsPerPage = 1
	}
	return nil
}

// end frees what the context has.
func (c *context) end() error {
	var errs []error
	errs = append(errs, c.reserved.end(), c.clocks.end(), c.bars.end())
	if c.core.AsyncFD >= 0 {
		errs = append(errs, uverbs.CloseFD(c.core.AsyncFD))
	}
	errs = append(errs, c.file.Close(), c.memory.end())
	return errors.Join(errs...)
}

// CloseDevice closes a context. What is left of its objects ends.
func (c *context) CloseDevice() error {
	c.v.table.removeOf(c.handle)
	return c.end()
}

// Context returns what is known of a context.
func (c *context) Context() control.Context {
	return control.Context{Device: c.devH, CmdFD: c.file.FD(), AsyncFD: c.core.AsyncFD,
		CompVectors: int(c.core.CompVectors)}
}

// Watch makes explain see each errno.
func (c *context) Watch(explain func(error) error) { c.file.Explain(explain) }

// Unwatch undoes Watch.
func (c *context) Unwatch() { c.file.Explain(nil) }

// userIndex returns an index for a new QP or SRQ. Completions name them by their numbers, so it need not be unique.
func (c *context) userIndex() uint32 {
	if c.info.CQEVersion == 0 {
		return noUserIndex
	}
	return c.lastUIdx.Add(1) % noUserIndex
}
