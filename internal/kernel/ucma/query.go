package ucma

import (
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

func ask(w usercm.Writer, i *id, what uint32) (r usercm.AddrResp, err error) {
	q := usercm.Query{ID: i.number, Arg: what}
	r.DeviceIndex = none
	err = usercm.Ask(w, usercm.CmdQuery, &q, &q.Response, &r)
	if n := max(r.SrcSize, r.DstSize); err == nil && n > sockaddr.Size {
		err = &usercm.ReplyError{Command: usercm.CmdQuery, What: "the size of an address", Got: fmt.Sprint(n),
			Want: fmt.Sprintf("0 to %d", sockaddr.Size)}
	}
	return r, err
}

// queryAddr fetches the addresses, and the device if the ID has got one. The error is ENODEV if the device cannot be
// opened.
func (i *id) queryAddr(w usercm.Writer, d *devices) error {
	r, err := ask(w, i, usercm.QueryAddr)
	if err != nil {
		return err
	}
	i.mu.Lock()
	copy(i.src[:], r.Src[:r.SrcSize])
	copy(i.dst[:], r.Dst[:r.DstSize])
	known := i.dev != nil || r.NodeGUID == 0
	i.mu.Unlock()
	if known {
		return nil
	}
	dev, err := d.get(r.NodeGUID.Get(), r.DeviceIndex)
	if err != nil {
		return syscall.ENODEV
	}
	if r.Port == 0 || r.Port > dev.ports {
		d.put(dev)
		return &usercm.ReplyError{Command: usercm.CmdQuery, What: "the port", Got: fmt.Sprint(r.Port),
			Want: fmt.Sprintf("1 to %d", dev.ports)}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dev != nil { // another call was faster
		d.put(dev)
		return nil
	}
	i.dev, i.port, i.pkey = dev, r.Port, r.PKey.Get()
	return nil
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
	copy(i.sgid[:], r.Src[gid:])
	copy(i.dgid[:], r.Dst[gid:])
	return nil
}

// queryPaths fetches the path records.
func (i *id) queryPaths(w usercm.Writer) error {
	q, r := usercm.Query{ID: i.number, Arg: usercm.QueryPath}, usercm.PathResp{}
	if err := usercm.Ask(w, usercm.CmdQuery, &q, &q.Response, &r); err != nil {
		return err
	}
	paths := make([]abi.SAPathRec, min(int(r.NumPaths), len(r.Paths)))
	for k := range paths {
		paths[k] = record(&r.Paths[k])
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(paths) > 0 {
		i.paths = paths
	}
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
