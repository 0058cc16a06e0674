package ibv

import (
	"fmt"
	"testing"
)

func TestCaps_String(t *testing.T) {
	for _, c := range []struct {
		v    fmt.Stringer
		want string
	}{
		{QPTypes(0), "0"},
		{QPTypes(1<<RC | 1<<RawPacket | 1<<20), "RC|RawPacket|0x100000"},
		{ODPSupport | ODPImplicit | 1<<40, "Support|Implicit|0x10000000000"},
		{ODPSend | ODPRecv | ODPWrite | ODPRead, "Send|Recv|Write|Read"},
		{ODPAtomic | ODPSRQRecv | ODPFlush | ODPAtomicWrite, "Atomic|SRQRecv|Flush|AtomicWrite"},
		{RawVLANStripping | RawScatterFCS | RawIPCsum | RawDelayDrop | 1<<4,
			"VLANStripping|ScatterFCS|IPCsum|DelayDrop|0x10"},
		{HashSrcIPv4 | HashDstIPv4 | HashSrcIPv6 | HashDstIPv6, "SrcIPv4|DstIPv4|SrcIPv6|DstIPv6"},
		{HashSrcPortTCP | HashDstPortTCP | HashSrcPortUDP | HashDstPortUDP,
			"SrcPortTCP|DstPortTCP|SrcPortUDP|DstPortUDP"},
		{HashIPsecSPI | HashInner, "IPsecSPI|Inner"},
		{HashToeplitz | 1<<7, "Toeplitz|0x80"},
		{TagMatchingRC, "RC"},
		{AtomicSizes(0), "0"},
		{AtomicSizes(0b111), "4|8|16"},
		{AtomicSizes(1 << 15), "131072"},
	} {
		if got := c.v.String(); got != c.want {
			t.Errorf("%T: got %q, want %q", c.v, got, c.want)
		}
	}
}

func TestCaps_Has(t *testing.T) {
	if s := QPTypes(1 << UD); !s.Has(UD) || s.Has(RC) || s.Has(Driver) || s.Has(QPType(300)) {
		t.Error("a set of QP types does not tell what is in it")
	}
	s := AtomicSizes(0b010)
	for bytes, want := range map[int]bool{8: true, 4: false, 16: false, 0: false, 2: false, -8: false, 12: false,
		1 << 30: false} {
		if s.Has(bytes) != want {
			t.Errorf("%v has %d: %v", s, bytes, !want)
		}
	}
}
