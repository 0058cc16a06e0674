package rdmacm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

func (id *ID) option(op string, level, name int, value []byte) error {
	return id.do(op, func() error { return id.lib.SetOption(id.handle, level, name, value) })
}

func flag(on bool) []byte {
	b := make([]byte, 4)
	if on {
		binary.LittleEndian.PutUint32(b, 1)
	}
	return b
}

// SetTOS sets the type of service, or traffic class, of the connection's packets.
//
// C: rdma_set_option(3) with RDMA_OPTION_ID_TOS.
func (id *ID) SetTOS(tos uint8) error {
	return id.option("set tos", abi.RDMA_OPTION_ID, abi.RDMA_OPTION_ID_TOS, []byte{tos})
}

// SetReuseAddr lets Bind use a port that a closed connection still holds. Call it before Bind.
//
// C: rdma_set_option(3) with RDMA_OPTION_ID_REUSEADDR.
func (id *ID) SetReuseAddr(on bool) error {
	return id.option("set reuseaddr", abi.RDMA_OPTION_ID, abi.RDMA_OPTION_ID_REUSEADDR, flag(on))
}

// SetAFOnly makes a listener on [::] refuse IPv4. Call it before Bind.
//
// C: rdma_set_option(3) with RDMA_OPTION_ID_AFONLY.
func (id *ID) SetAFOnly(on bool) error {
	return id.option("set afonly", abi.RDMA_OPTION_ID, abi.RDMA_OPTION_ID_AFONLY, flag(on))
}

// SetAckTimeout sets the QP's ACK timeout, at most 31; 0 is forever. Call it before Connect or
// Accept. It needs Linux 5.1.
//
// C: rdma_set_option(3) with RDMA_OPTION_ID_ACK_TIMEOUT.
func (id *ID) SetAckTimeout(t ibv.TimeCode) error {
	if t > 31 {
		err := &ibv.ArgError{Arg: "ack timeout", Got: fmt.Sprint(uint8(t)), Want: "0 to 31, 4.096 µs·2^n"}
		return &ibv.OpError{Op: "set ack timeout", Object: id.name, Err: err}
	}
	return id.option("set ack timeout", abi.RDMA_OPTION_ID, abi.RDMA_OPTION_ID_ACK_TIMEOUT, []byte{uint8(t)})
}

// Path is a path through an InfiniBand subnet.
//
// C: struct ibv_path_record, struct ibv_sa_path_rec.
type Path struct {
	ServiceID      uint64
	SGID, DGID     ibv.GID
	SLID, DLID     uint16
	FlowLabel      uint32 // 20 bits
	HopLimit       uint8
	TrafficClass   uint8
	Reversible     bool
	PKey           uint16
	SL             uint8 // 4 bits
	MTU            ibv.MTU
	Rate           ibv.Rate     // 6 bits
	PacketLifeTime ibv.TimeCode // 4.096 µs·2^n, 6 bits
	Preference     uint8
}

// Flags of struct ibv_path_data.
const (
	pathGMP     = 1 << 0
	pathPrimary = 1 << 1
	pathBidir   = 1<<3 | 1<<5
)

// SetPaths sets the ID's paths, in place of ResolveRoute. EventRouteResolved follows. The first
// path is the primary one. It is for InfiniBand only.
//
// C: rdma_set_option(3) with RDMA_OPTION_IB_PATH.
func (id *ID) SetPaths(paths []Path) error {
	const op = "set paths"
	if len(paths) == 0 {
		return &ibv.OpError{Op: op, Object: id.name, Err: &ibv.ArgError{Arg: "paths", Got: "none",
			Want: "at least one"}}
	}
	data := make([]abi.PathData, len(paths))
	for i, p := range paths {
		if err := p.check(); err != nil {
			return &ibv.OpError{Op: op, Object: id.name, Err: err, Detail: fmt.Sprintf("path %d", i)}
		}
		d := &data[i]
		d.Flags = pathBidir
		if i == 0 {
			d.Flags |= pathGMP | pathPrimary
		}
		r := &d.Path
		r.ServiceID.Set(p.ServiceID)
		r.SGID, r.DGID = abi.GID(p.SGID), abi.GID(p.DGID)
		r.SLID.Set(p.SLID)
		r.DLID.Set(p.DLID)
		r.FlowlabelHoplimit.Set(p.FlowLabel<<8 | uint32(p.HopLimit))
		r.Tclass = p.TrafficClass
		r.ReversibleNumpath = 1
		if p.Reversible {
			r.ReversibleNumpath |= 0x80
		}
		r.PKey.Set(p.PKey)
		r.QosclassSL.Set(uint16(p.SL))
		const exactly = 2 << 6
		r.MTU = uint8(p.MTU) | exactly
		r.Rate = uint8(p.Rate) | exactly
		r.Packetlifetime = uint8(p.PacketLifeTime) | exactly
		r.Preference = p.Preference
	}
	return id.setPaths(abi.PathBytes(data))
}

// check rejects values that the fields of a path record cannot hold.
func (p *Path) check() error {
	var errs []error
	for _, f := range []struct {
		name string
		v    uint32
		bits int
	}{{"FlowLabel", p.FlowLabel, 20}, {"SL", uint32(p.SL), 4}, {"MTU", uint32(p.MTU), 6}, {"Rate", uint32(p.Rate), 6},
		{"PacketLifeTime", uint32(p.PacketLifeTime), 6}} {
		if most := uint32(1)<<f.bits - 1; f.v > most {
			errs = append(errs, &ibv.ArgError{Arg: f.name, Got: fmt.Sprint(f.v), Want: fmt.Sprintf("0 to %d, %d bits",
				most, f.bits)})
		}
	}
	return errors.Join(errs...)
}

// setPaths sets the paths; data is an array of struct ibv_path_data.
func (id *ID) setPaths(data []byte) error {
	return id.bound("set paths", func() error {
		if err := id.lib.SetOption(id.handle, abi.RDMA_OPTION_IB, abi.RDMA_OPTION_IB_PATH, data); err != nil {
			return err
		}
		id.order.advance(stageRouting)
		return nil
	})
}

// Paths returns the paths that ResolveRoute found or the peer sent.
//
// C: rdma_cm_id.route.path_rec.
func (id *ID) Paths() []Path {
	var list []Path
	for _, r := range peek(id, control.CM.Paths) {
		list = append(list, Path{
			SGID: ibv.GID(r.SGID), DGID: ibv.GID(r.DGID), SLID: r.SLID.Get(), DLID: r.DLID.Get(),
			FlowLabel: r.FlowLabel.Get(), HopLimit: r.HopLimit, TrafficClass: r.TrafficClass,
			Reversible: r.Reversible != 0,
			PKey:       r.PKey.Get(), SL: r.SL, MTU: ibv.MTU(r.MTU), Rate: ibv.Rate(r.Rate),
			PacketLifeTime: ibv.TimeCode(r.PacketLifeTime), Preference: r.Preference,
		})
	}
	return list
}
