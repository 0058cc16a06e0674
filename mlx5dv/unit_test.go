package mlx5dv

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/work"
)

// TestWQEOpcodes: the constants are the opcodes of the kinds of work requests, with their names, and those that no work
// request has.
func TestWQEOpcodes(t *testing.T) {
	names := map[WQEOpcode]string{OpNop: "Nop", OpLocalInv: "LocalInv"}
	for i := range work.Kinds {
		if k := &work.Kinds[i]; k.WQE != "" {
			names[WQEOpcode(k.Device)] = k.WQE
		}
	}
	for v := range 256 {
		want := names[WQEOpcode(v)]
		if want == "" {
			want = fmt.Sprintf("WQEOpcode(%d)", v)
		}
		if got := WQEOpcode(v).String(); got != want {
			t.Errorf("%#x is %s, want %s", v, got, want)
		}
	}
}

func TestStrings(t *testing.T) {
	for _, c := range []struct {
		v    fmt.Stringer
		want string
	}{
		{DeviceFlags(0), "0"},
		{CQEVersion1 | MPWAllowed | EnhancedMPW | CQE128Compression | CQE128Padding | PacketBasedCredits |
			RealTimeTimestamps | BlueFlame | 1<<1 | 1<<40,
			"CQEVersion1|MPWAllowed|EnhancedMPW|CQE128Compression|CQE128Padding|" +
				"PacketBasedCredits|RealTimeTimestamps|BlueFlame|0x10000000002"},
		{HasCQECompression | HasOOORecv | 1<<17, "CQECompression|OOORecv|0x20000"},
		{HasSWParsing | HasStridingRQ | HasTunnelOffloads | HasDynamicBFRegs,
			"SWParsing|StridingRQ|TunnelOffloads|DynamicBFRegs"},
		{HasClockInfoUpdate | HasFlowActions | HasDCODP | HasHCACoreClock | HasLAGPorts,
			"ClockInfoUpdate|FlowActions|DCODP|HCACoreClock|LAGPorts"},
		{HasSignature | HasDCIStreams | HasWRMemcpy | HasCrypto | HasDCRdAtom | HasRegC0,
			"Signature|DCIStreams|WRMemcpy|Crypto|DCRdAtom|RegC0"},
		{CQEHash | CQEChecksum | CQEChecksumStride, "Hash|Checksum|ChecksumStride"},
		{SWParse | SWParseChecksum | SWParseLSO, "Parse|Checksum|LSO"},
		{TunnelVXLAN | TunnelGRE | TunnelGENEVE | TunnelMPLSOverGRE | TunnelMPLSOverUDP,
			"VXLAN|GRE|GENEVE|MPLSOverGRE|MPLSOverUDP"},
		{FlowESPAESGCM | FlowESPAESGCMTXIVIsESN, "ESPAESGCM|ESPAESGCMTXIVIsESN"},
		{FlowESPAESGCMReqMetadata | FlowESPAESGCMSPISteering | FlowESPAESGCMFullOffload,
			"ESPAESGCMReqMetadata|ESPAESGCMSPISteering|ESPAESGCMFullOffload"},
		{SigT10DIF | SigCRC, "T10DIF|CRC"},
		{GuardCRC | GuardChecksum, "CRC|Checksum"},
		{CRC32 | CRC32C | CRC64XP10, "CRC32|CRC32C|CRC64XP10"},
		{Block512 | Block520 | Block4048 | Block4096 | Block4160, "512|520|4048|4096|4160"},
		{CryptoAESXTS | CryptoAESXTSSingleBlock | CryptoAESXTSMultiBlock, "AESXTS|AESXTSSingleBlock|AESXTSMultiBlock"},
		{ImportAESXTS | 2, "AESXTS|0x2"},
		{CryptoPresent | CryptoWrappedOperational | CryptoWrappedCommissioning,
			"Crypto|WrappedOperational|WrappedCommissioning"},
		{TunnelOffloaded | SelfLoopbackUnicast | SelfLoopbackMulticast | DisableScatterToCQE,
			"TunnelOffloaded|SelfLoopbackUnicast|SelfLoopbackMulticast|DisableScatterToCQE"},
		{AllowScatterToCQE | PacketBasedCreditMode | SignaturePipelining | OutOfOrderData,
			"AllowScatterToCQE|PacketBasedCreditMode|SignaturePipelining|OutOfOrderData"},
		{OpNop, "Nop"}, {OpSend, "Send"}, {OpUMR, "UMR"}, {WQEOpcode(0x2f), "WQEOpcode(47)"},
		{WQESolicited | WQESignaled | WQESmallFence | WQEFence | 1, "Solicited|Signaled|SmallFence|Fence|0x1"},
		{ibv.QPTypes(1<<ibv.RC | 1<<ibv.RawPacket | 1<<20), "RC|RawPacket|0x100000"},
	} {
		if got := c.v.String(); got != c.want {
			t.Errorf("%T: %s, want %s", c.v, got, c.want)
		}
	}
	if s := ibv.QPTypes(1 << ibv.UD); !s.Has(ibv.UD) || s.Has(ibv.RC) || s.Has(ibv.QPType(300)) {
		t.Error("a set of QP types does not tell what is in it")
	}
}

// Each field of the C struct arrives in one of its own.
func TestDeviceAttr(t *testing.T) {
	var c abi.MLX5DVContext
	n := uint64(0)
	var number func(v reflect.Value)
	number = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Field(i)
			switch {
			case v.Type().Field(i).Name == "_":
			case f.Kind() == reflect.Struct:
				number(f)
			default:
				n++
				f.SetUint(n)
			}
		}
	}
	number(reflect.ValueOf(&c).Elem())
	got := make(map[uint64]string)
	var read func(v reflect.Value, path string)
	read = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				read(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case reflect.Int64:
			got[uint64(v.Int())] = path
		default:
			got[v.Uint()] = path
		}
	}
	read(reflect.ValueOf(*deviceAttrFromC(&c)), "")
	for i := range n {
		if got[i+1] == "" {
			t.Errorf("field %d of mlx5dv_context is nowhere", i+1)
		}
	}
	if len(got) != int(n) {
		t.Errorf("%d fields of %d", len(got), n)
	}
	if allFeatures != 1<<17-1 {
		t.Errorf("features asked for are %v", allFeatures)
	}
}

func TestClock(t *testing.T) {
	c := Clock{Nsec: 1_000_000_000_000, LastCycles: 1000, Frac: 3, Mult: 5 << 8, Shift: 10, Mask: 1<<48 - 1}
	for _, x := range []struct{ ts, want uint64 }{
		{1000, 1_000_000_000_000},
		{1000 + 800, 1_000_000_001_000},
		{1000 + 1, 1_000_000_000_001},             // (1280 + 3) >> 10
		{1000 - 800, 999_999_999_001},             // (1024000 - 3) >> 10 is 999
		{1<<48 - 1 - 1000 + 801, 999_999_998_501}, // across the wrap: 1200 ticks before
		{1000 + 1<<47 - 1, 1_000_000_000_000 + (1<<47-1)*5/4},
	} {
		if got := c.Nanoseconds(x.ts); got != x.want {
			t.Errorf("%d ticks are %d ns, want %d", x.ts, got, x.want)
		}
	}
	if got := c.Time(1800).UnixNano(); got != 1_000_000_001_000 {
		t.Errorf("1800 ticks are %d", got)
	}
}

func TestQPOptions(t *testing.T) {
	for _, c := range []struct {
		o  QPOptions
		ok bool
	}{
		{QPOptions{}, true},
		{QPOptions{Flags: DisableScatterToCQE | PacketBasedCreditMode}, true},
		{QPOptions{Flags: OutOfOrderData}, true},
		{QPOptions{Flags: SelfLoopbackUnicast, QPOptions: ibv.QPOptions{Type: ibv.RawPacket}}, true},
		{QPOptions{Flags: SelfLoopbackUnicast}, false},
		{QPOptions{Flags: DisableScatterToCQE | AllowScatterToCQE}, false},
		{QPOptions{Flags: 1 << 20}, false},
	} {
		if err := c.o.check(false, nil); (err == nil) != c.ok {
			t.Errorf("%v, type %v: %v", c.o.Flags, c.o.Type, err)
		}
	}
	var arg *ibv.ArgError
	if err := (&QPOptions{QPOptions: ibv.QPOptions{Type: ibv.Driver}}).check(false, nil); !errors.As(err, &arg) {
		t.Errorf("a driver's own type: %v", err)
	}
}

func TestNil(t *testing.T) {
	var arg *ibv.ArgError
	for name, f := range map[string]func() error{
		"IsSupported": func() error { _, err := IsSupported(nil); return err },
		"QueryDevice": func() error { _, err := QueryDevice(nil); return err },
		"ReadClock":   func() error { _, err := ReadClock(nil); return err },
		"CreateCQ":    func() error { _, err := CreateCQ(nil, 1, nil); return err },
		"CreateQP":    func() error { _, err := CreateQP(nil, nil, nil, nil); return err },
		"ViewQP":      func() error { _, err := ViewQP(nil); return err },
		"ViewCQ":      func() error { _, err := ViewCQ(nil); return err },
		"ViewSRQ":     func() error { _, err := ViewSRQ(nil); return err },
	} {
		if err := f(); !errors.As(err, &arg) {
			t.Errorf("%s of nil: %v", name, err)
		}
	}
}

func TestRing(t *testing.T) {
	r := Ring{Buf: make([]byte, 4*32), Stride: 32, Count: 4}
	r.Entry(6)[31] = 1
	if r.Buf[95] != 1 || len(r.Entry(3)) != 32 {
		t.Error("entry 6 of 4 is not entry 2")
	}
	if (&Ring{}).Entry(0) != nil {
		t.Error("a ring that is not there has entries")
	}
}

// What CreateMkey, Change and Check say that only devices that encrypt would reach.
func TestBlockCrypto(t *testing.T) {
	d := &DEK{node: node{handle: 0x1234}}
	for want, c := range map[string]BlockCrypto{
		"Crypto.DEK":      {DataUnit: Block512},
		"Crypto.DataUnit": {DEK: d, DataUnit: Block512 | Block520},
	} {
		var e *ibv.ArgError
		if err := c.check(); !errors.As(err, &e) || e.Arg != want {
			t.Errorf("%v, want an ArgError of %s", err, want)
		}
	}
	c := &BlockCrypto{DEK: d, EncryptOnSend: true, SignatureFirst: true, DataUnit: Block4096, Tweak: [16]byte{15: 9},
		Keytag: [8]byte{7: 3}}
	want := abi.MLX5DVCryptoAttr{CryptoStandard: abi.MLX5DV_CRYPTO_STANDARD_AES_XTS, EncryptOnTx: 1,
		SignatureCryptoOrder: abi.MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_BEFORE_CRYPTO_ON_TX,
		DataUnitSize:         abi.MLX5DV_BLOCK_SIZE_4096, InitialTweak: [16]byte{15: 9}, DEK: 0x1234,
		Keytag: [8]byte{7: 3}}
	if got := c.toC(); c.check() != nil || *got != want {
		t.Errorf("%+v, want %+v", *got, want)
	}
	if s := CryptoNoLogin.String() + " " + CryptoState(7).String(); s != "NoLogin CryptoState(7)" {
		t.Error(s)
	}
}

// Names of what mkeys have.
func TestMkeyStrings(t *testing.T) {
	for _, c := range []struct {
		v    fmt.Stringer
		want string
	}{
		{allOps, "MRInterleaved|MRList|MkeyConfigure|RawWQE|Memcpy"},
		{knownMkeyFlags | 1, "BlockSignature|Crypto|UpdateTag|RemoteInvalidate|0x1"},
		{knownT10DIFFlags, "RefRemap|AppEscape|AppRefEscape"},
		{CRC32Bytes, "SigBytes(0xf0)"}, {SigBadGuard, "guard"}, {SigErrorKind(0), "SigErrorKind(0)"},
		{SigBadRefTag, "reference tag"}, {SigBadAppTag, "application tag"},
	} {
		if got := c.v.String(); got != c.want {
			t.Errorf("%T: %s, want %s", c.v, got, c.want)
		}
	}
}
