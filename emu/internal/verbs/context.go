//go:build linux

package verbs

import (
	"encoding/binary"
	"math"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
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
	old := c.ctx.Device.Config.ABI == config.ABIWrite
	switch {
	case e != 0:
		return e
	case q.Flags != 0 && (c.ctx.Device.Config.NoDevX || old):
		return unix.EINVAL
	case q.Flags&^uapi.UctxDEVX != 0, q.CompMask != 0, q.Reserved0 != 0, q.Reserved1 != 0, q.Reserved2 != 0:
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
		if q.LibCaps&libDynUAR == 0 || old { // before rdma-core 29, or Linux 5.7
			if e := hca.AddRegisters(c.ctx, q.TotalNumBfregs, q.NumLowLatencyBfregs, c.driverLen() == 8); e != 0 {
				return uapi.AllocUcontextResp{}, e
			}
		}
		c.ctx.Ready = true
		c.ctx.DevX = q.Flags&uapi.UctxDEVX != 0
		c.ctx.CQEVersion = min(c.ctx.CQEVersion, q.MaxCQEVersion)
		return ucontext(c.ctx, c.driverRoom()), 0
	}, func(uapi.AllocUcontextResp) {
		c.ctx.Ready, c.ctx.DevX = false, false
		hca.DropRegisters(c.ctx)
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
	fd, e := c.readFile(guest.NewPipe, (*call).asyncFile)
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
	r := hca.RegistersOf(x)
	u := uapi.AllocUcontextResp{
		QPTabSize: uint32(l.MaxQP), BfRegSize: 512, CacheLineSize: 64, MaxSqDescSz: 1024, MaxRqDescSz: 512,
		MaxSendWqebb: uint32(l.MaxQPWR), MaxRecvWR: uint32(l.MaxQPWR), MaxSRQRecvWR: uint32(l.MaxSRQWR) + 1,
		NumPorts: uint16(len(d.Ports)), CompMask: uapi.RespCoreClock | uapi.RespDumpFill | uapi.RespSQD2RTS,
		ResponseLength: fits[uapi.AllocUcontextResp](room), CQEVersion: x.CQEVersion, CmdsSuppUhw: 3,
		ClockInfoVersions: uapi.ClockInfoV1, HcaCoreClockOffset: clockOffset, LogUARSize: 12, NumUarsPerPage: 1,
		DumpFillMkey: hca.NullKey, TotBfregs: uint32(r.Static()), NumDynBfregs: uint32(r.Dynamic()),
	}
	if len(d.Ports) > 0 && d.Ports[0].Config.LinkLayer == config.Ethernet {
		u.EthMinInline = uapi.InlineNone
		if d.Config.MinInline > 0 {
			u.EthMinInline = uapi.InlineL2
		}
	}
	return u
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
	case *hca.WQ:
		return uapi.ObjWQ
	case *hca.IndTable:
		return uapi.ObjIndTable
	case *hca.AH:
		return uapi.ObjAH
	case *hca.Flow:
		return uapi.ObjFlow
	case *hca.FlowCounters:
		return uapi.ObjCounters
	case *hca.XRCDRef:
		return uapi.ObjXRCD
	case *hca.DM:
		return uapi.ObjDM
	case *hca.UAR:
		return uapi.ObjUAR
	case *hca.DevxObject:
		return uapi.ObjDevxObj
	case *hca.Umem:
		return uapi.ObjDevxUmem
	case *hca.MKey:
		if o.Kind == hca.KeyMW1 || o.Kind == hca.KeyMW2 {
			return uapi.ObjMW
		}
		return uapi.ObjMR
	}
	return math.MaxUint64
}
