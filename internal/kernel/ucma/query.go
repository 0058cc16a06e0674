package ucma

import (
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// query fetches what the kernel knows of an ID: the addresses, the GIDs, the paths, and the device if the ID has got
// one. The error is ENODEV if the device cannot be opened. One command has it all, unless the addresses are those of
// InfiniBand.
func (i *id) query(w usercm.Writer, d *devices) error {
	q, r := abi.UCMQuery{ID: i.number}, abi.UCMQueryRouteResp{DeviceIndex: none}
	if err := usercm.Ask(w, usercm.CmdQueryRoute, &q, &q.Response, &r); err != nil {
		return err
	}
	src, dst := sockaddr.Of(r.SrcAddr[:]), sockaddr.Of(r.DstAddr[:])
	if src.Family() == sockaddr.IB || dst.Family() == sockaddr.IB {
		return i.queryIB(w, d)
	}
	paths := make([]abi.SAPathRec, min(int(r.NumPaths), len(r.IBRoute)))
	for k := range paths {
		paths[k] = r.IBRoute[k].SAPathRec()
	}
	i.mu.Lock()
	i.src, i.dst, i.sgid, i.dgid = src, dst, r.IBRoute[0].SGID, r.IBRoute[0].DGID
	i.mu.Unlock()
	i.setPaths(paths)
	return i.setDevice(d, r.NodeGUID.Get(), r.DeviceIndex, usercm.CmdQueryRoute, r.PortNum, r.IBRoute[0].PKey.Get())
}

func (i *id) setPaths(paths []abi.SAPathRec) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(paths) > 0 {
		i.paths = paths
	}
}

// setDevice gives an ID the device that the reply to a command names, if it has none.
func (i *id) setDevice(d *devices, guid uint64, index uint32, cmd usercm.Command, port uint8, pkey uint16) error {
	if i.now().dev != nil || guid == 0 {
		return nil
	}
	dev, err := d.get(guid, index)
	if err != nil {
		return syscall.ENODEV
	}
	if port == 0 || port > dev.ports {
		d.put(dev)
		return &usercm.ReplyError{Command: cmd, What: "the port", Got: fmt.Sprint(port),
			Want: fmt.Sprintf("1 to %d", dev.ports)}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dev != nil { // another call was faster
		d.put(dev)
		return nil
	}
	i.dev, i.port, i.pkey = dev, port, pkey
	return nil
}

// queryIB is query for addresses of InfiniBand.
func (i *id) queryIB(w usercm.Writer, d *devices) error {
	if err := i.queryAddr(w, d); err != nil {
		return err
	}
	if err := i.queryGIDs(w); err != nil {
		return err
	}
	return i.queryPaths(w)
}

func ask(w usercm.Writer, i *id, what uint32) (r abi.UCMQueryAddrResp, err error) {
	q := abi.UCMQuery{ID: i.number, Arg: what}
	r.DeviceIndex = none
	err = usercm.Ask(w, usercm.CmdQuery, &q, &q.Response, &r)
	if n := max(r.SrcSize, r.DstSize); err == nil && n > sockaddr.Size {
		err = &usercm.ReplyError{Command: usercm.CmdQuery, What: "the size of an address", Got: fmt.Sprint(n),
			Want: fmt.Sprintf("0 to %d", sockaddr.Size)}
	}
	return r, err
}

// queryAddr fetches the addresses and the device.
func (i *id) queryAddr(w usercm.Writer, d *devices) error {
	r, err := ask(w, i, usercm.QueryAddr)
	if err != nil {
		return err
	}
	i.mu.Lock()
	copy(i.src[:], r.SrcAddr[:r.SrcSize])
	copy(i.dst[:], r.DstAddr[:r.DstSize])
	i.mu.Unlock()
	return i.setDevice(d, r.NodeGUID.Get(), r.DeviceIndex, usercm.CmdQuery, r.PortNum, r.PKey.Get())
}

// queryGIDs fetches the GIDs. The kernel has them as the addresses of two struct sockaddr_ib.
func (i *id) queryGIDs(w usercm.Writer) error {
	const gid = 8 // its offset there
	r, err := ask(w, i, usercm.QueryGID)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	copy(i.sgid[:], r.SrcAddr[gid:])
	copy(i.dgid[:], r.DstAddr[gid:])
	return nil
}

// queryPaths fetches the path records.
func (i *id) queryPaths(w usercm.Writer) error {
	q, r := abi.UCMQuery{ID: i.number, Arg: usercm.QueryPath}, usercm.PathResp{}
	if err := usercm.Ask(w, usercm.CmdQuery, &q, &q.Response, &r); err != nil {
		return err
	}
	paths := make([]abi.SAPathRec, min(int(r.NumPaths), len(r.Paths)))
	for k := range paths {
		paths[k] = record(&r.Paths[k])
	}
	i.setPaths(paths)
	return nil
}

// record unpacks a path record of the subnet administration.
func record(d *abi.PathData) abi.SAPathRec {
	const exactly = 2 // the selector of what librdmacm takes for exact values
	p := &d.Path
	r := abi.SAPathRec{DGID: p.DGID, SGID: p.SGID, DLID: p.DLID, SLID: p.SLID,
		HopLimit: uint8(p.FlowlabelHoplimit.Get()), TrafficClass: p.Tclass, Reversible: int32(p.ReversibleNumpath >> 7),
		NumbPath: 1, PKey: p.PKey, SL: uint8(p.QosclassSL.Get() & 0xf), MTUSelector: exactly, MTU: p.MTU & 0x1f,
		RateSelector: exactly, Rate: p.Rate & 0x1f, PacketLifeTimeSelector: exactly,
		PacketLifeTime: p.Packetlifetime & 0x1f, Preference: uint8(d.Flags)}
	r.FlowLabel.Set(p.FlowlabelHoplimit.Get() >> 8)
	return r
}
