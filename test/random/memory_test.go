//go:build linux

package random

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// memKind is the kind of an end's memory.
type memKind uint8

const (
	pinned   memKind = iota
	onDemand         // registered with OnDemand
	implicit         // within a region of the whole address space
	dmabuf           // a memfd that is registered as a dma-buf
	inDevice         // memory of the device
	memKinds
)

func (k memKind) String() string {
	return [...]string{"pinned", "onDemand", "implicit", "dmabuf", "inDevice"}[k]
}

// paged reports whether the device handles page faults of the memory.
func (k memKind) paged() bool { return k == onDemand || k == implicit }

// offer is what a device has beside pinned memory, XRC and DC.
type offer struct {
	kinds []memKind
	dm    int // bytes of device memory for a program
	xrc   bool
	dc    bool
	// log2 of the most streams of a DCI
	streams uint8
}

// offersOf asks a device which kinds of memory it has. That an emulated one has too few is an error.
func offersOf(name string, emulated, mapsMemfd bool) (o offer, err error) {
	d, err := ibv.Open(name)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	attr, err := d.QueryDevice()
	if err != nil || attr.Ex == nil {
		return o, err
	}
	const all = ibv.ODPSend | ibv.ODPRecv | ibv.ODPWrite | ibv.ODPRead | ibv.ODPAtomic | ibv.ODPSRQRecv
	if odp := attr.Ex.ODP; odp.General&ibv.ODPSupport != 0 && odp.RC&odp.XRC&all == all {
		o.kinds = append(o.kinds, onDemand)
		if odp.General&ibv.ODPImplicit != 0 {
			o.kinds = append(o.kinds, implicit)
		}
	}
	// Half: it may be in pieces, and one device may be both ends.
	if o.dm = int(min(attr.Ex.MaxDMSize, 1<<20)) / 2; o.dm > 0 {
		o.kinds = append(o.kinds, inDevice)
	}
	if emulated && len(o.kinds) != 3 {
		return o, fmt.Errorf("%s has only the kinds %v of memory", d.Name(), o.kinds)
	}
	if o.xrc = attr.CapFlags&ibv.DeviceXRC != 0; emulated && !o.xrc {
		return o, fmt.Errorf("%s has no XRC", d.Name())
	}
	if err := o.askDC(d, emulated); err != nil {
		return o, err
	}
	pd, err := d.AllocPD()
	if err != nil {
		return o, err
	}
	m, err := newMemory(pd, 4096, 0, dmabuf)
	var old *ibv.UnsupportedError
	switch {
	case err == nil:
		o.kinds = append(o.kinds, dmabuf)
		err = m.Close()
	case !mapsMemfd || errors.As(err, &old): // libibverbs before v34
		err = nil
	}
	return o, errors.Join(err, pd.Close())
}

// placeMemory chooses the kinds of a program's memory, from a sequence of their own.
func (p *program) placeMemory() {
	r := rand.New(rand.NewPCG(p.seed, 1<<32))
	left := [2]int{p.offers[0].dm, p.offers[1].dm}
	choose := func(e, n int, fits func(k memKind) bool) memKind {
		kinds := slices.DeleteFunc(slices.Clone(p.offers[e].kinds), func(k memKind) bool {
			return k == inDevice && n > left[e] || !fits(k)
		})
		if len(kinds) == 0 || one(r, 2) {
			return pinned
		}
		k := pick(r, kinds...)
		if k == inDevice {
			left[e] -= n
		}
		return k
	}
	for _, g := range p.groups {
		all := !slices.ContainsFunc(g.links, func(l *link) bool { return l.srq && l.typ != ibv.RC })
		for e := range 2 {
			if g.srqWR > 0 {
				// A short message of an SRQ may come in its completion, from which the CPU copies it.
				g.srqMem[e] = choose(e, 0, func(k memKind) bool { return k != inDevice && (all || !k.paged()) })
			}
			for _, l := range g.links {
				paged := l.typ == ibv.RC || l.typ == ibv.XRCSend
				l.mem[e] = choose(e, l.size(), func(k memKind) bool { return paged || !k.paged() })
			}
		}
		for _, l := range g.links {
			if slices.ContainsFunc(l.mem[:], func(k memKind) bool { return k == dmabuf || k == inDevice }) {
				// No window can be bound to those.
				l.lends, l.binds = 0, false
			}
		}
	}
}

// drawn counts the memory of ends by its kind, and the ends of XRC and DC links.
type drawn struct {
	kinds            [memKinds]int
	xrc, dc, streams int
}

func (n *drawn) add(p *program) {
	for _, g := range p.groups {
		for e := range 2 {
			if g.srqWR > 0 {
				n.kinds[g.srqMem[e]]++
			}
			for _, l := range g.links {
				n.kinds[l.mem[e]]++
				switch l.typ {
				case ibv.XRCSend:
					n.xrc++
				case ibv.DCI:
					if n.dc++; l.streams > 0 {
						n.streams++
					}
				}
			}
		}
	}
}

// check logs what was drawn. Of many ends some must have each kind that a device has.
func (n *drawn) check(t testing.TB, b bed) {
	t.Helper()
	all := 0
	for _, k := range n.kinds {
		all += k
	}
	k := n.kinds
	t.Logf("memory of ends: %d pinned, %d on demand, %d implicit, %d of dma-bufs, %d in the device; %d ends of XRC, "+
		"%d of DC, %d of these with streams", k[pinned], k[onDemand], k[implicit], k[dmabuf], k[inDevice], n.xrc, n.dc,
		n.streams)
	if n.xrc == 0 && all >= 100 && b.offers[0].xrc && b.offers[1].xrc {
		t.Errorf("none of %d ends is of an XRC link", all)
	}
	if o := b.offers; all >= 100 && o[0].dc && o[1].dc && (n.dc == 0 ||
		n.streams == 0 && min(o[0].streams, o[1].streams) > 0) {
		t.Errorf("of %d ends %d are of a DC link, %d with streams", all, n.dc, n.streams)
	}
	for _, o := range b.offers {
		for _, k := range o.kinds {
			if n.kinds[k] == 0 && all >= 100 {
				t.Errorf("none of %d ends has memory of the kind %v", all, k)
			}
		}
	}
}
