//go:build linux

package verbs

import (
	"encoding/binary"
	"math"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/config"
	"github.com/pureverbs/pureverbs/internal/emu/guest"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
	"github.com/pureverbs/pureverbs/internal/emu/uapi"
)

const (
	compVectors = 8
	coreSupport = uint64(1) // IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS
	libDynUAR   = 1 << 1
	clockOffset = 0x90 // of the free-running clock in its page
)

func getContext(c *call) unix.Errno {
	c.early = true
	q, e := driver[uapi.AllocUcontextReq](c, 8)
	switch {
	case e != 0:
		return e
	case q.Flags != 0: // DevX, as where the adapter has none: libmlx5 then asks without, unless its program insists
		return unix.EINVAL
	case q.CompMask != 0, q.Reserved0 != 0, q.Reserved1 != 0, q.Reserved2 != 0:
		return unix.EOPNOTSUPP
	case c.driverLen() > 8 && c.driverLen() < 16: // between the versions of the request
		return unix.EINVAL
	case q.NumLowLatencyBfregs+1 > max(q.TotalNumBfregs, 1):
		return unix.EINVAL
	}
	c.req = q
	u, e := create(c, func() (uapi.AllocUcontextResp, unix.Errno) {
		if c.ctx.Ready {
			return uapi.AllocUcontextResp{}, unix.EINVAL
		}
		if q.LibCaps&libDynUAR == 0 { // before rdma-core 29
			if e := c.ctx.AddRegisters(q.TotalNumBfregs, q.NumLowLatencyBfregs, c.driverLen() == 8); e != 0 {
				return uapi.AllocUcontextResp{}, e
			}
		}
		c.ctx.Ready = true
		c.ctx.CQEVersion = min(c.ctx.CQEVersion, q.MaxCQEVersion)
		return ucontext(c.ctx, c.driverRoom()), 0
	}, func(uapi.AllocUcontextResp) {
		c.ctx.Ready = false
		c.ctx.DropRegisters()
	})
	if e != 0 {
		return e
	}
	if c.b != nil {
		c.resp = u
		return first(out(c, 0, uint32(compVectors)), out(c, 1, coreSupport), replyDriver(c, u))
	}
	resp := uapi.GetContextResp{NumCompVectors: compVectors}
	if e = first(replyDriver(c, u), reply(c, resp)); e != 0 {
		return e
	}
	fd, e := c.eventFile((*call).asyncFile)
	resp.AsyncFd = uint32(fd)
	return first(e, reply(c, resp))
}

func queryContext(c *call) unix.Errno {
	u, e := get(c, func() (uapi.AllocUcontextResp, unix.Errno) {
		return ucontext(c.ctx, c.b.Room(uapi.DriverNS)), 0
	})
	c.resp = u
	return first(e, out(c, 0, uint32(compVectors)), out(c, 1, coreSupport), out(c, uapi.DriverNS, u))
}

// ucontext returns what the mlx5 driver tells the library about the device.
func ucontext(x *hca.Context, room uapi.Room) uapi.AllocUcontextResp {
	d := x.Device
	l := &d.Config.Limits
	u := uapi.AllocUcontextResp{
		QPTabSize: uint32(l.MaxQP), BfRegSize: 512, CacheLineSize: 64, MaxSqDescSz: 1024, MaxRqDescSz: 512,
		MaxSendWqebb: uint32(l.MaxQPWR), MaxRecvWR: uint32(l.MaxQPWR), MaxSRQRecvWR: uint32(l.MaxSRQWR) + 1,
		NumPorts: uint16(len(d.Ports)), CompMask: uapi.RespCoreClock | uapi.RespDumpFill,
		ResponseLength: fits[uapi.AllocUcontextResp](room), CQEVersion: x.CQEVersion, CmdsSuppUhw: 3,
		ClockInfoVersions: uapi.ClockInfoV1, HcaCoreClockOffset: clockOffset, LogUARSize: 12, NumUarsPerPage: 1,
		DumpFillMkey: hca.NullKey, TotBfregs: uint32(x.Static()), NumDynBfregs: uint32(x.Dynamic()),
	}
	if len(d.Ports) > 0 && d.Ports[0].Config.LinkLayer == config.Ethernet {
		u.EthMinInline = 1 // none
	}
	return u
}

// eventFile makes an event file, gives the program its reading end, and attach the other one. The descriptor cannot be
// taken back, so nothing that can fail may be left for later.
func (c *call) eventFile(attach func(*call, *guest.Pipe)) (int, unix.Errno) {
	p, r, err := guest.NewPipe()
	if err != nil {
		return 0, unix.EMFILE
	}
	defer r.Close()
	fd, err := c.who.install(int(r.Fd()))
	if err != nil {
		p.Close()
		return 0, unix.EMFILE
	}
	c.s.f.Lock()
	attach(c, p)
	c.s.f.Unlock()
	return fd, 0
}

// asyncFile makes p the file that events go to, if it is the first. The kernel lets others be named at creation of an
// object, which nobody does.
func (c *call) asyncFile(p *guest.Pipe) {
	if c.ctx.Async == nil {
		c.ctx.Async = p
	} else {
		c.s.spare[c.ctx] = append(c.s.spare[c.ctx], p)
	}
}

func asyncEventAlloc(c *call) unix.Errno {
	if e := first(c.do(ok), c.b.SetID(0, 0)); e != 0 {
		return e
	}
	fd, e := c.eventFile((*call).asyncFile)
	return first(e, c.b.SetID(0, uint64(fd)))
}

func createCompChannel(c *call) unix.Errno {
	if e := first(c.do(ok), reply(c, uint32(0))); e != 0 {
		return e
	}
	fd, e := c.eventFile(func(c *call, p *guest.Pipe) { c.ctx.CreateChannel(p) })
	return first(e, reply(c, uint32(fd)))
}

func uarAlloc(c *call) unix.Errno {
	kind := c.b.Uint(uapi.DriverNS + 1)
	if kind > 1 {
		return unix.EOPNOTSUPP
	}
	u, e := create(c, func() (*hca.UAR, unix.Errno) { return c.ctx.AllocUAR(uint32(kind)) },
		func(u *hca.UAR) { c.ctx.FreeUAR(u.Handle) })
	if e != 0 {
		return e
	}
	c.resp = uapi.HandleOnly{Handle: u.Handle}
	return first(c.b.SetID(uapi.DriverNS, uint64(u.Handle)),
		out(c, uapi.DriverNS+2, uint64(uapi.MmapUAR<<8+u.Index)*pageSize),
		out(c, uapi.DriverNS+3, uint32(pageSize)), out(c, uapi.DriverNS+4, uint32(u.Index)))
}

// devxQuery translates a number of the program's to the device's, which is the same: of a doorbell page, of a
// completion vector.
func devxQuery(known func(c *call, i int) bool) func(*call) unix.Errno {
	return func(c *call) unix.Errno {
		i := uint32(c.b.Uint(uapi.DriverNS))
		e := c.do(func() unix.Errno {
			if !known(c, int(i)) {
				return unix.EINVAL
			}
			return 0
		})
		return first(e, out(c, uapi.DriverNS+1, i))
	}
}

// hasUAR also accepts the number of a dynamic register, if the context has them.
func (c *call) hasUAR(i int) bool {
	return c.ctx.DynamicUAR(uint32(i)) != nil || i < len(c.ctx.UARs) && c.ctx.UARs[i] != nil
}

func (c *call) hasVector(i int) bool { return i < compVectors }

func allocPD(c *call) unix.Errno {
	pd, e := create(c, c.ctx.AllocPD, func(pd *hca.PD) { c.ctx.DeallocPD(pd.Handle) })
	if e != 0 {
		return e
	}
	return first(reply(c, uapi.HandleOnly{Handle: pd.Handle}), replyDriver(c, pd.Num))
}

func queryPD(c *call) unix.Errno {
	pd, e := get(c, func() (*hca.PD, unix.Errno) { return c.ctx.PD(uint32(c.b.Uint(uapi.DriverNS))) })
	if e != 0 {
		return e
	}
	return out(c, uapi.DriverNS+1, pd.Num)
}

func openXRCD(c *call, q *uapi.OpenXRCD) unix.Errno {
	var dev, ino uint64
	if q.Fd != -1 {
		var err error
		if dev, ino, err = c.who.stat(q.Fd); err != nil {
			return unix.EBADF
		}
	}
	h, e := create(c, func() (h uint32, e unix.Errno) { h, _, _, e = c.ctx.OpenXRCD(dev, ino, q.Oflags); return h, e },
		func(h uint32) { c.ctx.CloseXRCD(h) })
	if e != 0 {
		return e
	}
	return reply(c, uapi.HandleOnly{Handle: h})
}

// infoHandles lists the handles of one kind of object.
func infoHandles(c *call) unix.Errno {
	b, e := get(c, func() (b []byte, _ unix.Errno) {
		room := c.b.Room(2).Len
		if room == 0 || room%4 != 0 {
			return nil, unix.EINVAL
		}
		for _, h := range c.ctx.Handles() {
			if kindOf(c.ctx.Object(h)) == c.b.Uint(0) && len(b) < room {
				b = binary.NativeEndian.AppendUint32(b, h)
			}
		}
		return b, 0
	})
	return first(e, out(c, 1, uint32(len(b)/4)), c.b.Room(2).Put(b, false))
}

// kindOf returns the interface's number for an object's kind.
func kindOf(o any) uint64 {
	switch o := o.(type) {
	case *hca.PD:
		return uapi.ObjPD
	case *hca.CQ:
		return uapi.ObjCQ
	case *hca.QP, *hca.OpenedQP:
		return uapi.ObjQP
	case *hca.SRQ:
		return uapi.ObjSRQ
	case *hca.AH:
		return uapi.ObjAH
	case *hca.XRCDRef:
		return uapi.ObjXRCD
	case *hca.UAR:
		return uapi.ObjUAR
	case *hca.MKey:
		if o.Kind == hca.KeyMW1 || o.Kind == hca.KeyMW2 {
			return uapi.ObjMW
		}
		return uapi.ObjMR
	}
	return math.MaxUint64
}
