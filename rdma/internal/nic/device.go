package nic

import (
	"context"
	"errors"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// device is a PD of a device.
type device struct {
	dev *ibv.Device
	pd  *ibv.PD
}

// OfDevice returns the adapter of a PD.
func OfDevice(pd *ibv.PD) Adapter { return &device{pd.Device(), pd} }

func (d *device) Transport() ibv.TransportType { return d.dev.Info().Transport }

func (d *device) Alloc(n int, access ibv.AccessFlags, opt *ibv.MemOptions) (Memory, error) {
	return memoryOf(d.pd.AllocMR(n, access, opt))
}

func (d *device) Register(p []byte, access ibv.AccessFlags) (Memory, error) {
	return memoryOf(d.pd.RegMR(p, access))
}

func (d *device) Again(p []byte, addr, iova uint64, access ibv.AccessFlags) (Memory, error) {
	mr, err := d.pd.RegMemory(uintptr(addr), len(p), iova, access)
	if errors.Is(err, ibv.ErrNotSupported) { // libraries before v25
		mr, err = d.pd.RegMR(p, access)
	}
	return memoryOf(mr, err)
}

// memoryOf returns an MR as Memory, and no nil *MR in an interface.
func memoryOf(mr *ibv.MR, err error) (Memory, error) {
	if err != nil {
		return nil, err
	}
	return mr, nil
}

// deviceCQ is a CQ of a device.
type deviceCQ struct {
	polled
	of      *device
	cq      *ibv.CQ
	channel *ibv.CompChannel // nil with CQOptions.Manual: then the CQ has the device's own
}

func (d *device) NewCQ(handle func([]ibv.WC)) CQ {
	return &deviceCQ{polled: polled{handle: handle}, of: d}
}

func (c *deviceCQ) Open(n int, o CQOptions) (err error) {
	opt := &ibv.CQOptions{Spin: ibv.None, DataPath: o.DataPath, CompVector: o.Vector} // package progress polls
	if !o.Manual {
		if c.channel, err = c.of.dev.CreateManualCompChannel(); err != nil {
			return err
		}
		opt.Channel = c.channel
	}
	c.cq, err = c.of.dev.CreateCQ(n, opt)
	return err
}

func (c *deviceCQ) Poll() (int, error) {
	n, err := c.cq.Poll(c.wcs[:])
	if n > 0 {
		c.handle(c.wcs[:n])
	}
	return n, err
}

func (c *deviceCQ) Resize(n int) error { return c.cq.Resize(n) }
func (c *deviceCQ) Device() *ibv.CQ    { return c.cq }
func (c *deviceCQ) Depth() int         { return c.cq.Cap().CQE }
func (c *deviceCQ) Arm() error         { return c.cq.Arm(false) }
func (c *deviceCQ) Events() uint32     { return c.cq.Events() }
func (c *deviceCQ) ReadEvents() error  { return c.channel.ReadEvents() }
func (c *deviceCQ) Interrupt()         { c.channel.Interrupt() }

func (c *deviceCQ) WaitEvent(ctx, stop context.Context, seen uint32) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(stop, cancel)()
	return c.cq.WaitEvent(ctx, seen)
}

func (c *deviceCQ) Carrier() string {
	path, _ := c.cq.DataPath()
	return "rdma " + c.of.dev.Name() + " " + path.String()
}

func (c *deviceCQ) Close() error {
	var errs []error
	if c.cq != nil {
		errs = append(errs, c.cq.Close())
	}
	if c.channel != nil {
		errs = append(errs, c.channel.Close())
	}
	return errors.Join(errs...)
}

func (c *deviceCQ) OpenReceives(depth int) (*Receives, error) {
	path, _ := c.cq.DataPath()
	srq, err := c.of.pd.CreateSRQ(&ibv.SRQOptions{MaxWR: depth, DataPath: path})
	if err != nil {
		return nil, err
	}
	return &Receives{srq: srq}, nil
}

// deviceConn is a connection of rdma_cm.
type deviceConn struct {
	*rdmacm.Conn
	qp *ibv.QP
}

// OfConn returns a connection of rdma_cm.
func OfConn(c *rdmacm.Conn) Conn { return &deviceConn{c, c.QP()} }

func (c *deviceConn) Num() uint32    { return c.qp.Num() }
func (c *deviceConn) Cap() ibv.QPCap { return c.qp.Cap() }
func (c *deviceConn) Queue() Queue   { return Queue{qp: c.qp} }

func (c *deviceConn) Allow(access ibv.AccessFlags) error {
	return c.qp.Modify(&ibv.QPAttr{Access: access}, ibv.MaskAccessFlags)
}

func (c *deviceConn) Reads() int {
	attr, err := c.qp.Query(ibv.MaskMaxQPRdAtomic)
	if err != nil {
		return 0
	}
	return int(attr.MaxRdAtomic)
}

func (c *deviceConn) Unused() bool {
	early := func(s ibv.QPState) bool { return s == ibv.StateReset || s == ibv.StateInit }
	if !early(c.qp.State()) {
		return false
	}
	attr, err := c.qp.Query(ibv.MaskState) // an old librdmacm may have moved it
	return err == nil && early(attr.State)
}

func (c *deviceConn) Rest(ctx context.Context) error { return c.qp.Rest(ctx) }

func (c *deviceConn) Mark(ctx context.Context, id uint64) (needless bool, err error) {
	n, err := c.qp.Mark(ctx, id)
	return n == 0, err
}

func (c *deviceConn) Addrs() (local, remote netip.AddrPort) { return c.LocalAddr(), c.RemoteAddr() }
