package ibv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// rawFrame is a random frame, by what rules look at.
type rawFrame struct {
	mac   MAC
	vlan  uint16 // 0 for no tag
	ip    int    // 4, 6, or 0 for another protocol
	tcp   bool
	host  byte // the last of the destination's IPv4 address
	port  uint16
	bytes []byte
	sums  bool // the device fills in the checksums
}

// rawRule is a random steering rule and what it leads to. Of other fields than these it takes any value.
type rawRule struct {
	to       int
	priority int
	mac      *MAC
	vlan     uint16
	ip       int
	hostMask byte
	host     byte
	l4, tcp  bool
	port     uint16
}

func (r *rawRule) takes(f *rawFrame) bool {
	return (r.mac == nil || f.mac == *r.mac) && (r.vlan == 0 || f.vlan == r.vlan) && (r.ip == 0 || f.ip == r.ip) &&
		(f.host^r.host)&r.hostMask == 0 && (!r.l4 || f.tcp == r.tcp && f.port == r.port)
}

func (r *rawRule) attr() FlowAttr {
	var eth FlowEth
	if r.mac != nil {
		eth.Value.DstMAC, eth.Mask.DstMAC = *r.mac, MAC{255, 255, 255, 255, 255, 255}
	}
	if r.vlan != 0 {
		eth.Value.VLANTag, eth.Mask.VLANTag = r.vlan, 0xfff
	}
	if r.ip == 6 {
		eth.Value.EtherType, eth.Mask.EtherType = 0x86dd, 0xffff
	}
	a := FlowAttr{Priority: r.priority, Specs: []FlowSpec{eth}}
	if r.ip == 4 {
		a.Specs = append(a.Specs, FlowIPv4{Value: FlowIPv4Fields{Dst: [4]byte{0, 0, 0, r.host & r.hostMask}},
			Mask: FlowIPv4Fields{Dst: [4]byte{0, 0, 0, r.hostMask}}})
	}
	ports := FlowPorts{Dst: r.port}
	switch all := (FlowPorts{Dst: 0xffff}); {
	case r.l4 && r.tcp:
		a.Specs = append(a.Specs, FlowTCP{Value: ports, Mask: all})
	case r.l4:
		a.Specs = append(a.Specs, FlowUDP{Value: ports, Mask: all})
	}
	return a
}

// TestRXE_RawRandom sends random frames through random rules to several QPs, and compares who gets which, byte by
// byte, with a model.
func TestRXE_RawRandom(t *testing.T) {
	a, b := rawPair(t, RawOptions{}, RawOptions{})
	if a == nil {
		return
	}
	const strips = 2 // takes VLAN tags out
	to := []*rawSide{b, newRawSide(t, 1, RawOptions{}), newRawSide(t, 1, RawOptions{StripVLAN: true})}
	seed := uint64(1)
	if s := os.Getenv("PUREVERBS_SEED"); s != "" {
		seed = must(strconv.ParseUint(s, 0, 64))(t)
	}
	rounds := 60
	if testutil.Full() {
		rounds = 2000
	}
	t.Logf("PUREVERBS_SEED=%d makes the frames and rules again", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	got := make([]int, len(to)+1)
	for range rounds {
		rules := randomRules(r, b.mac, len(to))
		var flows []*Flow
		for i := range rules {
			attr := rules[i].attr()
			attr.Port = 1
			f, err := to[rules[i].to].qp.CreateFlow(&attr)
			if err != nil {
				t.Fatalf("%+v: %v", attr, err)
			}
			flows = append(flows, f)
		}
		for range 20 {
			f := randomFrame(r, b.mac, a.mac)
			var best *rawRule
			for i := range rules {
				if x := &rules[i]; x.takes(f) && (best == nil || x.priority < best.priority) {
					best = x
				}
			}
			var flags SendFlags
			if f.sums {
				flags = IPCsum
			}
			a.send(t, f.bytes, flags)
			at := len(to)
			if best != nil {
				at = best.to
				frame, wc := to[at].frame(t)
				want := f.want(at == strips)
				if !bytes.Equal(frame, want) || (wc.Flags&WCIPCsumOK != 0) != (f.sums && f.ip == 4) {
					t.Fatalf("%+v by %+v: got %x, %+v, want %x", f, *best, frame, wc, want)
				}
			}
			got[at]++
			for i, x := range to {
				var wc [1]WC
				if n, err := x.cq.Poll(wc[:]); n != 0 || err != nil {
					t.Fatalf("%+v came to %d too: %+v, %v; rules %+v", f, i, wc[0], err, rules)
				}
			}
		}
		for _, f := range flows {
			ok(t, f.Close())
		}
	}
	t.Logf("frames to each QP, and to none: %v", got)
	for i, n := range got {
		if n < rounds/4 {
			t.Errorf("%d frames to %d: that is too few", n, i)
		}
	}
}

// randomRules returns some rules of different priorities.
func randomRules(r *rand.Rand, mac MAC, qps int) (rules []rawRule) {
	for _, p := range r.Perm(16)[:1+r.IntN(6)] {
		x := rawRule{to: r.IntN(qps), priority: p}
		if m := randomMAC(r, mac); r.IntN(2) == 0 {
			x.mac = &m
		}
		if r.IntN(3) == 0 {
			x.vlan = uint16(5 + r.IntN(2))
		}
		switch x.ip = []int{0, 4, 4, 6}[r.IntN(4)]; {
		case x.ip == 4:
			x.host, x.hostMask = byte(r.IntN(4)), byte([]int{1, 3, 255}[r.IntN(3)])
			if x.l4 = r.IntN(2) == 0; x.l4 {
				x.tcp, x.port = r.IntN(2) == 0, uint16(5000+r.IntN(2))
			}
		case x.ip == 0 && x.mac == nil && x.vlan == 0: // a rule has to ask for something
			x.mac = &mac
		}
		rules = append(rules, x)
	}
	return rules
}

// randomMAC returns the address of the port, or one of two that no port has.
func randomMAC(r *rand.Rand, mac MAC) MAC {
	if k := r.IntN(4); k < 2 {
		return MAC{2, 0, 0, 0, 0, byte(k)}
	}
	return mac
}

func randomFrame(r *rand.Rand, mac, src MAC) *rawFrame {
	f := &rawFrame{mac: randomMAC(r, mac), ip: []int{0, 4, 4, 6}[r.IntN(4)], tcp: r.IntN(2) == 0}
	n := r.IntN(100)
	if r.IntN(3) == 0 {
		n = r.IntN(1400)
	}
	if f.ip == 0 {
		f.bytes = ethernet(f.mac, src, 0x88b5, max(n, 4), r.IntN(256)) // an adapter may want 18 bytes
		f.tcp = false
	} else {
		f.bytes = packet(f.mac, src, f.ip == 6, f.tcp, n)
		f.sums = r.IntN(2) == 0
		l4 := f.l4()
		f.port = uint16(5000 + r.IntN(2))
		binary.BigEndian.PutUint16(l4[2:], f.port)
		if f.ip == 4 {
			f.host = byte(r.IntN(4))
			f.bytes[14+19] = f.host
		}
	}
	if r.IntN(2) == 0 {
		f.vlan = uint16(5 + r.IntN(2))
		f.bytes = append(append(bytes.Clone(f.bytes[:12]), 0x81, 0, byte(f.vlan>>8), byte(f.vlan)), f.bytes[12:]...)
	}
	return f
}

// head is the number of bytes before the IP header.
func (f *rawFrame) head() int {
	if f.vlan != 0 {
		return 18
	}
	return 14
}

func (f *rawFrame) l4() []byte {
	if f.ip == 6 {
		return f.bytes[f.head()+40:]
	}
	return f.bytes[f.head()+20:]
}

// want returns the frame as it arrives: with checksums, padded, and without its tag if the QP strips it.
func (f *rawFrame) want(strip bool) []byte {
	x := *f
	x.bytes = bytes.Clone(f.bytes)
	if f.sums {
		ip, l4 := x.bytes[x.head():], x.l4()
		addrs, proto, at := ip[12:20], byte(17), 6
		if f.tcp {
			proto, at = 6, 16
		}
		if f.ip == 6 {
			addrs = ip[8:40]
		} else {
			binary.BigEndian.PutUint16(ip[10:], ^onesSum(ip[:20]))
		}
		sum := ^onesSum(addrs, []byte{0, proto, byte(len(l4) >> 8), byte(len(l4))}, l4)
		if sum == 0 && !f.tcp {
			sum = 0xffff
		}
		binary.BigEndian.PutUint16(l4[at:], sum)
	}
	b := append(x.bytes, make([]byte, max(0, 60-len(x.bytes)))...)
	if strip && f.vlan != 0 {
		b = append(b[:12], b[16:]...)
	}
	return b
}

func (f *rawFrame) String() string {
	return fmt.Sprintf("to %v vlan %d IPv%d tcp %v host %d port %d, %d bytes, sums %v", f.mac, f.vlan, f.ip,
		f.tcp, f.host, f.port, len(f.bytes), f.sums)
}
