//go:build linux

package hca

import (
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// These tests need no device: each is about what one kind of object keeps.

// TestNumbers places and frees at random: a number is of one object at a time, is in its range, and is refused
// only when all are taken.
func TestNumbers(t *testing.T) {
	for _, x := range []struct{ first, most int }{{0, 8}, {1, 9}, {5, 6}, {3, 2000}} {
		var n numbers[int]
		rnd, live := rand.New(rand.NewPCG(1, uint64(x.most))), map[int]*int{}
		for i := range 5000 {
			if len(live) > 0 && rnd.IntN(3) == 0 {
				for at := range live {
					n.free(uint32(at))
					delete(live, at)
					break
				}
				continue
			}
			v := new(int)
			at, ok := n.place(x.first, x.most, v)
			if room := x.most - x.first - len(live); ok != (room > 0) {
				t.Fatalf("%+v, %d: placed %v with room for %d", x, i, ok, room)
			}
			if !ok {
				continue
			}
			if live[at] != nil || at < x.first || at >= x.most {
				t.Fatalf("%+v, %d: number %d", x, i, at)
			}
			live[at] = v
		}
		for at, v := range live {
			if n.at(uint32(at)) != v {
				t.Errorf("%+v: %d is of another object", x, at)
			}
		}
		seen := 0
		n.each(func(*int) { seen++ })
		if seen != len(live) || n.at(uint32(x.most)) != nil || n.at(^uint32(0)) != nil {
			t.Errorf("%+v: %d objects, want %d", x, seen, len(live))
		}
	}
}

// TestParts has each owner keep its own of each kind.
func TestParts(t *testing.T) {
	type one struct{ n int }
	type two struct{ s string }
	a, b := newPart[one](), newPart[two]()
	var x, y parts
	b.of(&x).s = "x"
	a.of(&x).n = 1
	a.of(&y).n = 2
	if a.of(&x).n != 1 || a.of(&y).n != 2 || b.of(&x).s != "x" || b.of(&y).s != "" {
		t.Errorf("%+v %+v %+v %+v", a.of(&x), a.of(&y), b.of(&x), b.of(&y))
	}
}

func TestKeysOfAPlaceDiffer(t *testing.T) {
	var all keys
	seen := map[uint32]bool{}
	for range 200 { // less than there are variants
		k := &MKey{}
		if e := all.add(k, 1); e != 0 {
			t.Fatal(e)
		}
		if k.Key>>8 != firstKey || seen[k.Key] {
			t.Fatalf("key %#x", k.Key)
		}
		if e := all.add(&MKey{}, 1); e != unix.ENOMEM {
			t.Fatalf("a second key of one: %v", e)
		}
		seen[k.Key] = true
		all.free(k.Key >> 8)
	}
}

func TestQPNumbers(t *testing.T) {
	var all qps
	const most = 4
	qp := &QP{}
	if !all.number(qp, most) || qp.Num != FirstQPN || all.at(0) != qp {
		t.Errorf("the first QP is %#x", qp.Num)
	}
	end := FirstQPN + all.most(most)
	a, release, ok := all.reserve(16, most)
	b, _, ok2 := all.reserve(16, most)
	if !ok || !ok2 || a < end || a%16 != 0 || b != a+16 {
		t.Errorf("reserved %#x and %#x behind %#x", a, b, end)
	}
	release()
	if c, _, _ := all.reserve(16, most); c != a {
		t.Errorf("what was given back at %#x is reserved at %#x", a, c)
	}
	if _, _, ok := all.reserve(1<<24, most); ok {
		t.Error("more QPNs than there are")
	}
	var ports []uint8
	for range 5 {
		ports = append(ports, all.deal(2))
	}
	if !slices.Equal(ports, []uint8{1, 2, 1, 2, 1}) {
		t.Errorf("ports of a bond %v", ports)
	}
}

func TestUARPages(t *testing.T) {
	var all uars
	take := func(most int) (int, bool) {
		i, ok := all.free(most)
		if ok {
			all.pages[i] = &UAR{}
		}
		return i, ok
	}
	for want := firstUAR; want < firstUAR+3; want++ {
		if i, ok := take(3); !ok || i != want {
			t.Errorf("page %d, %v; want %d", i, ok, want)
		}
	}
	if _, ok := take(3); ok {
		t.Error("a fourth page of three")
	}
	all.pages[2] = nil
	if i, ok := take(3); !ok || i != 2 {
		t.Errorf("page %d, %v; want the free one", i, ok)
	}
	for i, ok := take(1000); ok; i, ok = take(1000) {
		if i > lastUAR {
			t.Fatalf("page %#x, which an mmap offset cannot name", i)
		}
	}
}

// TestRegisters picks registers as mlx5_ib does: own ones first, then the shared one with the fewest QPs.
func TestRegisters(t *testing.T) {
	r := &Registers{uses: make([]int, 8), shared: 3}
	var got []int
	for range 11 {
		got = append(got, r.pick())
	}
	if want := []int{4, 5, 6, 7, 1, 2, 3, 1, 2, 3, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r.uses[6]--
	if i := r.pick(); i != 6 {
		t.Errorf("register %d, want the one that is free again", i)
	}
	old := &Registers{uses: make([]int, 8), zero: true}
	for range 2 {
		if i := old.pick(); i != 0 {
			t.Errorf("a library that knows register 0 alone has register %d", i)
		}
	}
}

func TestDMPages(t *testing.T) {
	var p filePages
	at, ok := p.room(dmPages)
	if !ok || at != 0 {
		t.Errorf("all pages at %d, %v", at, ok)
	}
	p.mark(2, 3, true)
	for n, want := range map[int]int{1: 0, 2: 0, 3: 5, dmPages - 5: 5} {
		if at, ok := p.room(n); !ok || at != want {
			t.Errorf("%d pages at %d, %v; want %d", n, at, ok, want)
		}
	}
	if _, ok := p.room(dmPages - 4); ok {
		t.Error("more pages in a row than are free")
	}
	p.mark(2, 3, false)
	if p != (filePages{}) {
		t.Error("pages are left")
	}
	for n, want := range map[uint64]uint64{1: 64, 64: 64, 65: 128} {
		if got := dmSize(n); got != want {
			t.Errorf("%d bytes take %d, want %d", n, got, want)
		}
	}
}

func TestPaces(t *testing.T) {
	var all paces
	a, b := &Context{}, &Context{}
	limit := func(v byte) []byte { return []byte{0, 0, 0, v} }
	first := all.take(a, limit(1), false)
	for _, x := range []struct {
		name      string
		owner     *Context
		limit     []byte
		dedicated bool
		shares    bool
	}{
		{"the same", a, limit(1), false, true}, {"another rate", a, limit(2), false, false},
		{"another owner", b, limit(1), false, false}, {"its own", a, limit(1), true, false},
	} {
		if got := all.take(x.owner, x.limit, x.dedicated); (got == first) != x.shares {
			t.Errorf("%s: shares %v, want %v", x.name, got == first, x.shares)
		}
	}
	all.drop(first)
	if all[0] == nil {
		t.Error("the entry is gone, though a handle has it")
	}
	if all.drop(first); all[0] != nil {
		t.Error("the entry is there, though no handle has it")
	}
	for all.take(a, limit(3), true) != nil {
	}
	if i := slices.Index(all[:], nil); i >= 0 {
		t.Errorf("entry %d is free, and refused", i)
	}
}

func TestGroups(t *testing.T) {
	var all groups
	a, b := &QP{}, &QP{}
	g, h := [16]byte{1}, [16]byte{2}
	all.join(g, a)
	all.join(g, b)
	if all.full(g, 1) || !all.full(h, 1) {
		t.Error("a known group is not full, a second one is")
	}
	all.leave(g, a)
	if !slices.Equal(all.members[g], []*QP{b}) {
		t.Errorf("members %v", all.members[g])
	}
	if all.leave(g, b); len(all.members) != 0 {
		t.Errorf("groups %v are left", all.members)
	}
}

// TestFlowPlaces has rules be looked at in the order of mlx5_ib's tables.
func TestFlowPlaces(t *testing.T) {
	multicast := []FlowMatch{{Spec: SpecEth, Value: []byte{1}, Mask: []byte{1}}}
	var all flows
	for _, i := range []FlowInit{
		{Type: FlowAllDefault}, {Matches: multicast}, {Priority: 1}, {}, {DontTrap: true}, {Type: FlowSniffer},
		{Type: FlowMCDefault}, {Priority: 1, DontTrap: true}, {Matches: multicast, Egress: true},
	} {
		f := &Flow{FlowInit: i}
		if e := all.settle(f); e != 0 {
			t.Fatal(e)
		}
		all.insert(f)
	}
	var order []int
	for _, f := range all.list {
		order = append(order, f.Table())
	}
	want := []int{-1, 0, 1, 1, 2, 3, mcastPriority, defaultsPriority, defaultsPriority}
	if !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	same := &Flow{FlowInit: FlowInit{Tag: 7}}
	if e := all.settle(same); e != unix.EEXIST {
		t.Errorf("a rule with the matches of another and another tag: %v", e)
	}
	for len(all.list) > 0 {
		n := len(all.list)
		if all.remove(all.list[0]); len(all.list) != n-1 {
			t.Fatal("a rule was not removed alone")
		}
	}
}

func TestParam(t *testing.T) {
	p := newParam(1, []byte{0x12}, []byte{0xf2})
	for first, want := range map[byte]bool{0x12: true, 0x1f: true, 0x10: false, 0x22: false} {
		fields := make([]byte, MatchSize)
		if fields[0] = first; p.Matches(fields) != want {
			t.Errorf("%#x matches: %v, want %v", first, !want, want)
		}
	}
	var none *Param
	if !none.same(nil) || none.same(p) || p.same(nil) || !p.same(newParam(1, []byte{0x12}, []byte{0xf2})) ||
		p.same(newParam(1, []byte{0x10}, []byte{0xf2})) || p.same(newParam(1, []byte{0x12}, []byte{0xf0})) {
		t.Error("which rules are about the same frames")
	}
	mac, ip := make([]byte, MatchSize), make([]byte, MatchSize)
	mac[paramDstMAC], ip[paramDstIPv4] = 1, 0xe0
	for name, x := range map[string]struct {
		p    *Param
		want bool
	}{
		"MAC": {newParam(1, mac, mac), true}, "IPv4": {newParam(1, ip, ip), true}, "neither": {p, false},
		"inner headers": {newParam(4, mac, mac), false}, "half of IPv4": {newParam(1, ip, nil), false},
	} {
		if x.p.multicast() != x.want {
			t.Errorf("%s: multicast %v, want %v", name, !x.want, x.want)
		}
	}
}

func TestVARs(t *testing.T) {
	var all vars
	for want := range maxVARs {
		if i, ok := all.take(); !ok || i != want {
			t.Fatalf("page %d, %v; want %d", i, ok, want)
		}
	}
	if _, ok := all.take(); ok {
		t.Error("one page more than there are")
	}
}

func TestRSSRefused(t *testing.T) {
	good := RSS{Queues: make([]*QP, 2), Key: make([]byte, HashKeySize), Function: HashToeplitz, Fields: HashSrcIPv4}
	for name, x := range map[string]struct {
		change func(*RSS)
		want   unix.Errno
	}{
		"good":           {func(*RSS) {}, 0},
		"function":       {func(r *RSS) { r.Function = 2 }, unix.EOPNOTSUPP},
		"key":            {func(r *RSS) { r.Key = r.Key[1:] }, unix.EINVAL},
		"no field":       {func(r *RSS) { r.Fields = 0 }, unix.EINVAL},
		"one queue":      {func(r *RSS) { r.Fields, r.Queues = 0, r.Queues[:1] }, 0},
		"IPv4 and IPv6":  {func(r *RSS) { r.Fields |= HashDstIPv6 }, unix.EINVAL},
		"TCP and UDP":    {func(r *RSS) { r.Fields |= HashSrcPortTCP | HashDstPortUDP }, unix.EINVAL},
		"another field":  {func(r *RSS) { r.Fields |= HashFields + 1 }, unix.EOPNOTSUPP},
		"IPv4 and ports": {func(r *RSS) { r.Fields |= HashSrcPortTCP | HashDstPortTCP }, 0},
	} {
		r := good
		if x.change(&r); r.check() != x.want {
			t.Errorf("%s: %v, want %v", name, r.check(), x.want)
		}
	}
}
