package mlx5dv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// Rights and layout change one by one, and go with an invalidation.
func TestRXEMkeyConfigure(t *testing.T) {
	s := newMkeySide(t, WithMkeyConfigure, nil)
	if s == nil {
		return
	}
	change := func(c MkeyConfig) ibv.SendWR {
		return ibv.SendWR{ID: 1, Opcode: ibv.OpDriver1, Flags: ibv.Signaled, Mkey: must(s.key.Change(&c))(t)}
	}
	remote := ibv.RemoteAddr{Addr: 8, RKey: s.key.RKey()}
	write := ibv.SendWR{ID: 2, Opcode: ibv.OpWrite, Flags: ibv.Signaled, SGEs: []ibv.SGE{s.mr.SGE(0, 8)},
		Remote: remote}
	read := write
	read.Opcode = ibv.OpRead
	copy(s.mr.Bytes(), "12345678")
	all := ibv.LocalWrite | ibv.RemoteRead | ibv.RemoteWrite
	post(t, s.qp, change(MkeyConfig{List: []ibv.SGE{s.mr.SGE(1000, 12), s.mr.SGE(2000, 12)}}),
		change(MkeyConfig{Access: all}), write)
	for _, id := range []uint64{1, 1, 2} {
		s.done(id)
	}
	if m := s.mr.Bytes(); string(m[1008:1012])+string(m[2000:2004]) != "12345678" {
		t.Errorf("% x, % x", m[1008:1012], m[2000:2004])
	}
	refused := func(what string, wrs ...ibv.SendWR) {
		t.Helper()
		post(t, s.qp, wrs...)
		for i := range wrs {
			var wc [1]ibv.WC
			for n := 0; n == 0; {
				n = must(s.cq.Poll(wc[:]))(t)
			}
			if bad := i == len(wrs)-1; bad != (wc[0].Status == ibv.WCRemAccessErr) {
				t.Fatalf("%s: completion %d is %+v", what, i, wc[0])
			}
		}
		ok(t, s.qp.Modify(&ibv.QPAttr{State: ibv.StateReset}, ibv.MaskState))
		loop(t, s.qp)
	}
	refused("without RemoteWrite", change(MkeyConfig{Access: ibv.RemoteRead}), write)
	post(t, s.qp, read)
	s.done(2)
	refused("without any right", change(MkeyConfig{Access: ibv.AccessNone}), read)
	far := write
	far.Remote.Addr = 17
	refused("beyond the layout", change(MkeyConfig{Access: all}), far)
	inv := ibv.SendWR{ID: 3, Opcode: ibv.OpLocalInv, Flags: ibv.Signaled, InvalidateRKey: s.key.RKey()}
	refused("after invalidation", inv, write)
}

// The device copies memory, by work requests of an RC QP.
func TestRXEMemcpy(t *testing.T) {
	s := newMkeySide(t, WithMemcpy|WithMkeyConfigure, nil)
	if s == nil {
		return
	}
	for i, n := range []int{1, 100, 30_000} {
		m := s.mr.Bytes()
		for k := range m {
			m[k] = byte(k*7 + k>>8 + i)
		}
		post(t, s.qp, Memcpy(uint64(n), ibv.Signaled, s.mr.SGE(33_000, n), s.mr.SGE(5, n)))
		if wc := s.done(uint64(n)); wc.Opcode != ibv.WCDriver3 || !bytes.Equal(m[33_000:][:n], m[5:][:n]) {
			t.Errorf("%d bytes: %+v", n, wc)
		}
	}
	for want, wr := range map[string]ibv.SendWR{
		"bytes to copy": Memcpy(1, 0, ibv.SGE{Length: 1 << 30}, ibv.SGE{Length: 1 << 30}),
		"same length":   Memcpy(1, 0, s.mr.SGE(0, 8), s.mr.SGE(8, 9)),
		"not 0":         Memcpy(1, 0, s.mr.SGE(0, 0), s.mr.SGE(8, 0)),
		"two":           {Opcode: ibv.OpMemcpy},
		"Inline":        {Opcode: ibv.OpMemcpy, Flags: ibv.Inline, SGEs: []ibv.SGE{s.mr.SGE(0, 8), s.mr.SGE(8, 8)}},
	} {
		if n, err := s.qp.PostSend([]ibv.SendWR{wr}); n != 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d, %v, want an error with %q", n, err, want)
		}
	}
}

// A DCI copies without the address of a DCT, between work requests that have one.
func TestRXEMemcpy_DCI(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	for _, path := range engines(dev) {
		t.Run(path.String(), func(t *testing.T) {
			s := newDCSide(t, dev, path)
			o := &QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCI, MaxInline: 64}, DriverOps: WithMemcpy}
			if path == ibv.DataPathOps {
				o.SendOps = ibv.SendOpWrite
			}
			dci, err := CreateQP(s.pd, s.cq, nil, o)
			if old := must(QueryDevice(dev))(t).MaxWRMemcpy == 0; old || err != nil {
				if !old || !errors.Is(err, ibv.ErrNotSupported) {
					t.Errorf("a library or a device without copies, %v: %v", old, err)
				}
				return
			}
			closing(t, dci)
			s.up(dci, nil)
			dct := s.dct(s.srq(), nil)
			ah, m := s.reach(dci, dct), s.mr.Bytes()
			for i := range m {
				m[i] = byte(i*7 + i>>8)
			}
			for i, n := range []int{1, 100, 9000} {
				write := ibv.SendWR{ID: uint64(i), Opcode: ibv.OpWrite, SGEs: []ibv.SGE{s.mr.SGE(n, 50)},
					Remote: s.mr.Remote().At(uint64(60_000 + 100*i)), AH: ah, RemoteQPN: dct.Num(), DCKey: dcKey}
				post(t, dci, write, Memcpy(uint64(n), ibv.Signaled, s.mr.SGE(33_000, n), s.mr.SGE(5, n)), write)
				if wc := s.wait(); wc.ID != uint64(n) || wc.Status != 0 || wc.Opcode != ibv.WCDriver3 ||
					!bytes.Equal(m[33_000:][:n], m[5:][:n]) || !bytes.Equal(m[60_000+100*i:][:50], m[n:][:50]) {
					t.Errorf("%d bytes: %+v", n, wc)
				}
			}
			wr := Memcpy(1, 0, s.mr.SGE(0, 8), s.mr.SGE(8, 8))
			wr.AH, wr.RemoteQPN, wr.DCKey = ah, dct.Num(), dcKey
			var arg *ibv.ArgError
			if n, err := dci.PostSend([]ibv.SendWR{wr}); n != 0 || !errors.As(err, &arg) || arg.Arg != "AH" {
				t.Errorf("a copy with an address: %d, %v", n, err)
			}
		})
	}
}

// A QP whose completions may carry results takes no atomics with masks.
func TestRXEMasked_ScatterToCQE(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	s := newDCSide(t, dev, ibv.DataPathDirect)
	rxe := testutil.NeedRXE(t)
	for flags, refused := range map[QPCreateFlags]bool{0: false, DisableScatterToCQE: false, AllowScatterToCQE: true} {
		q := closing(t, must(CreateQP(s.pd, s.cq, s.cq, &QPOptions{Flags: flags}))(t))
		ok(t, q.Connect(must(q.Endpoint(rxe.Port, rxe.GID))(t), nil))
		clear(s.mr.Bytes())
		n, err := q.PostSend([]ibv.SendWR{{ID: 1, Opcode: ibv.OpMaskedFetchAdd, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{s.mr.SGE(0, 8)}, Remote: s.mr.Remote().At(64),
			Masked: &ibv.MaskedAtomic{SwapAdd: [4]uint64{5}}}})
		var u *ibv.UnsupportedError
		if refused {
			if n != 0 || !errors.As(err, &u) || !strings.Contains(u.Feature, "AllowScatterToCQE") {
				t.Errorf("%v: %d, %v, want an UnsupportedError that names the flag", flags, n, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", flags, err)
		} else if wc := s.wait(); wc.Status != 0 || s.mr.Bytes()[64] != 5 {
			t.Errorf("%v: %+v, % x", flags, wc, s.mr.Bytes()[64:72])
		}
	}
}

// WQEs that the program wrote go between those of libmlx5.
func TestRXERawWQE(t *testing.T) {
	s := newMkeySide(t, WithRawWQE|WithMkeyConfigure, nil)
	if s == nil {
		return
	}
	wqe := func(op, ds byte, segs ...uint64) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(op))
		b = binary.BigEndian.AppendUint32(b, s.qp.Num()<<8|uint32(ds))
		b = append(b, 0, 0, 0, byte(WQESignaled), 0, 0, 0, 0)
		for _, v := range segs {
			b = binary.BigEndian.AppendUint64(b, v)
		}
		return b
	}
	m := s.mr.Bytes()
	copy(m, "raw data, 20 bytes..")
	raw := wqe(byte(OpWrite), 3, s.mr.Addr()+4000, uint64(s.mr.RKey())<<32, 20<<32|uint64(s.mr.LKey()), s.mr.Addr())
	plain := ibv.SendWR{ID: 9, Opcode: ibv.OpWrite, Flags: ibv.Signaled, SGEs: []ibv.SGE{s.mr.SGE(0, 8)},
		Remote: s.mr.Remote().At(5000)}
	for i := range 30 { // around the ring
		clear(m[4000:6000])
		post(t, s.qp, plain, RawWQE(uint64(i), raw), plain)
		s.done(9)
		wc := s.done(uint64(i))
		s.done(9)
		if wc.Opcode != ibv.WCDriver2 || !bytes.Equal(m[4000:4020], m[:20]) || !bytes.Equal(m[5000:5008], m[:8]) {
			t.Fatalf("%d: %+v, % x", i, wc, m[4000:4020])
		}
	}
	other := bytes.Clone(raw)
	other[6]++
	unsignaled := RawWQE(1, raw)
	unsignaled.Flags = 0
	for want, wr := range map[string]ibv.SendWR{
		"own number":  RawWQE(1, other),
		"16 to 1008":  RawWQE(1, raw[:40]),
		"its length":  RawWQE(1, raw[:32]),
		"Signaled if": unsignaled,
	} {
		if n, err := s.qp.PostSend([]ibv.SendWR{wr}); n != 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d, %v, want an error with %q", n, err, want)
		}
	}
}

// What is wrong is refused, with the way out.
func TestRXEMkeyErrors(t *testing.T) {
	s := newMkeySide(t, WithMRList, &MkeyOptions{MaxEntries: 40})
	if s == nil {
		return
	}
	dev := s.pd.Device()
	arg := func(name string, err error) {
		t.Helper()
		var e *ibv.ArgError
		if !errors.As(err, &e) || !strings.Contains(e.Arg, name) {
			t.Errorf("%v, want an ArgError of %s", err, name)
		}
	}
	limit := func(limit uint64, err error) {
		t.Helper()
		var e *ibv.LimitError
		if !errors.As(err, &e) || e.Limit != limit {
			t.Errorf("%v, want a LimitError of %d", err, limit)
		}
	}
	lacks := func(need string, err error) {
		t.Helper()
		var e *ibv.UnsupportedError
		if !errors.As(err, &e) || !strings.Contains(e.Need, need) {
			t.Errorf("%v, want an UnsupportedError with %q", err, need)
		}
	}
	made := func(_ any, err error) error { return err }
	_, err := CreateMkey(nil, nil)
	arg("pd", err)
	arg("MaxEntries", made(CreateMkey(s.pd, &MkeyOptions{MaxEntries: -1})))
	limit(65532, made(CreateMkey(s.pd, &MkeyOptions{MaxEntries: 1 << 16})))
	arg("Flags", made(CreateMkey(s.pd, &MkeyOptions{Flags: 1 << 9})))
	lacks("Crypto", made(CreateMkey(s.pd, &MkeyOptions{Flags: MkeyCrypto})))
	arg("mkey", s.key.Check())

	sge, piece := s.mr.SGE(0, 8), Block{Addr: s.mr.Addr(), Bytes: 8, LKey: s.mr.LKey()}
	change := func(c MkeyConfig) error { return made(s.key.Change(&c)) }
	arg("config", made(s.key.Change(nil)))
	arg("Access", change(MkeyConfig{Access: ibv.MWBind}))
	arg("List and Blocks", change(MkeyConfig{List: []ibv.SGE{sge}, Blocks: []Block{piece}, Repeat: 1}))
	arg("Repeat", change(MkeyConfig{Blocks: []Block{piece}}))
	arg("Repeat", change(MkeyConfig{List: []ibv.SGE{sge}, Repeat: 1}))
	arg("List[1].Length", change(MkeyConfig{List: []ibv.SGE{sge, {}}}))
	arg("Blocks[0].Bytes", change(MkeyConfig{Blocks: []Block{{}}, Repeat: 1}))
	limit(65535, change(MkeyConfig{Blocks: []Block{{Bytes: 65535, Skip: 1}}, Repeat: 1}))
	limit(ibv.MaxSGELength, change(MkeyConfig{List: []ibv.SGE{{Length: 1 << 30}, {Length: 1 << 30}}}))
	limit(40, change(MkeyConfig{List: make([]ibv.SGE, 41)}))
	limit(39, change(MkeyConfig{Blocks: make([]Block, 40), Repeat: 1})) // the head takes an entry too
	arg("Signature", change(MkeyConfig{ResetSignature: true}))
	arg("Crypto", change(MkeyConfig{Crypto: &BlockCrypto{}}))
	arg("Signature", change(MkeyConfig{Signature: &BlockSignature{}}))

	send := func(c MkeyConfig) error {
		return made(s.qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpDriver1, Mkey: must(s.key.Change(&c))(t)}}))
	}
	lacks("MkeyConfigure", send(MkeyConfig{Access: ibv.LocalWrite}))
	lacks("MkeyConfigure", send(MkeyConfig{List: []ibv.SGE{sge}}))
	list := make([]ibv.SGE, 30)
	for i := range list {
		list[i] = sge
	}
	limit(uint64(s.qp.Cap().MaxInline+4)/16, send(MkeyConfig{Access: ibv.LocalWrite, List: list}))
	arg("Mkey", made(s.qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpDriver1}})))
	good := ibv.SendWR{Opcode: ibv.OpDriver1, Mkey: must(s.key.Change(&MkeyConfig{Access: ibv.LocalWrite,
		List: []ibv.SGE{sge}}))(t)}
	bad := good
	bad.SGEs = []ibv.SGE{sge}
	arg("SGEs", made(s.qp.PostSend([]ibv.SendWR{bad})))
	pd := closing(t, must(dev.AllocPD())(t))
	other := must(CreateMkey(pd, nil))(t)
	foreign := ibv.SendWR{Opcode: ibv.OpDriver1, Mkey: must(other.Change(&MkeyConfig{Access: ibv.LocalWrite,
		List: []ibv.SGE{sge}}))(t)}
	arg("Mkey", made(s.qp.PostSend([]ibv.SendWR{foreign})))
	key := must(CreateMkey(s.pd, nil))(t)
	gone := ibv.SendWR{Opcode: ibv.OpDriver1, Mkey: must(key.Change(&MkeyConfig{Access: ibv.LocalWrite,
		List: []ibv.SGE{sge}}))(t)}
	ok(t, errors.Join(other.Close(), key.Close(), key.Close()))
	if err := made(s.qp.PostSend([]ibv.SendWR{gone})); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	plain := closing(t, must(s.pd.CreateQP(s.cq, s.cq, nil))(t))
	loop(t, plain)
	arg("Opcode", made(plain.PostSend([]ibv.SendWR{good})))

	create := func(o QPOptions) error { return made(CreateQP(s.pd, s.cq, s.cq, &o)) }
	arg("DriverOps", create(QPOptions{DriverOps: 1 << 9}))
	arg("DriverOps", create(QPOptions{QPOptions: ibv.QPOptions{Type: ibv.UC}, DriverOps: WithMRList}))
	arg("DriverOps", create(QPOptions{QPOptions: ibv.QPOptions{Type: ibv.UD}, DriverOps: WithMemcpy}))
}

// No emulated device encrypts.
func TestRXECrypto(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	pd := closing(t, must(dev.AllocPD())(t))
	for name, f := range map[string]func() error{
		"LoginCrypto":  func() error { return LoginCrypto(dev, CryptoLogin{}) },
		"LogoutCrypto": func() error { return LogoutCrypto(dev) },
		"QueryCrypto":  func() error { _, err := QueryCrypto(dev); return err },
		"CreateDEK":    func() error { _, err := CreateDEK(pd, &DEKOptions{Key: make([]byte, 32)}); return err },
		"CreateMkey":   func() error { _, err := CreateMkey(pd, &MkeyOptions{Flags: MkeyCrypto}); return err },
	} {
		var u *ibv.UnsupportedError
		if err := f(); !errors.As(err, &u) || !strings.Contains(u.Need, "DeviceAttr.Crypto") {
			t.Errorf("%s: %v, want an UnsupportedError that names DeviceAttr.Crypto", name, err)
		}
	}
	var a *ibv.ArgError
	var l *ibv.LimitError
	if _, err := CreateDEK(nil, nil); !errors.As(err, &a) || a.Arg != "pd" {
		t.Error(err)
	}
	if _, err := CreateDEK(pd, &DEKOptions{}); !errors.As(err, &a) || a.Arg != "Key" {
		t.Error(err)
	}
	if _, err := CreateDEK(pd, &DEKOptions{Key: make([]byte, 129)}); !errors.As(err, &l) || l.Limit != 128 {
		t.Error(err)
	}
}
