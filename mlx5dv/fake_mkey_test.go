package mlx5dv

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind"
)

// Capabilities of the fake device.
const (
	capSignature = 1 << iota
	capCrypto
	capCompression
	capCopy
	capWrapped
	capBefore42
)

func fakeMkeys(t *testing.T, dev *ibv.Device) {
	fakeCall(t, "fake_caps", 0)
	pd := closing(t, must(dev.AllocPD())(t))
	m := must(CreateMkey(pd, &MkeyOptions{MaxEntries: 5, Flags: MkeyRemoteInvalidate}))(t)
	if flags, n := lastArg(t, 0), lastArg(t, 1); flags != 1|int(MkeyRemoteInvalidate) || n != 5 {
		t.Errorf("made with flags %#x and %d entries", flags, n)
	}
	if m.LKey() != 0x123400 || m.RKey() != 0x123401 || m.MaxEntries() != 8 || m.PD() != pd {
		t.Errorf("keys %#x and %#x, %d entries", m.LKey(), m.RKey(), m.MaxEntries())
	}
	wantArg(t, "checking a key without signature", "mkey", m.Check())
	var busy *ibv.BusyError
	if err := pd.Close(); !errors.As(err, &busy) {
		t.Errorf("closing the PD under an mkey: %v", err)
	}
	ok(t, m.Close())
	ok(t, m.Close())
	if _, err := CreateMkey(pd, &MkeyOptions{MaxEntries: 1001}); err == nil {
		t.Error("made an mkey that libmlx5 refuses")
	} else {
		wantUnsupported(t, "refused by libmlx5", err)
	}
	_, err := CreateMkey(nil, nil)
	wantArg(t, "no PD", "pd", err)
	_, err = CreateMkey(pd, &MkeyOptions{MaxEntries: -1})
	wantArg(t, "less than no entries", "MaxEntries", err)
	var l *ibv.LimitError
	if _, err := CreateMkey(pd, &MkeyOptions{MaxEntries: 1<<16 - 3}); !errors.As(err, &l) || l.Asked != 1<<16-3 {
		t.Errorf("65533 entries: %v", err)
	}
	_, err = CreateMkey(pd, &MkeyOptions{Flags: 1 << 9})
	wantArg(t, "a flag that there is not", "Flags", err)
	_, err = CreateMkey(pd, &MkeyOptions{Flags: MkeyBlockSignature})
	wantUnsupported(t, "a signature on a device without", err)
	_, err = CreateMkey(pd, &MkeyOptions{Flags: MkeyCrypto})
	wantUnsupported(t, "encryption on a device without", err)

	fakeCall(t, "fake_caps", capSignature)
	m = must(CreateMkey(pd, &MkeyOptions{Flags: MkeyBlockSignature}))(t)
	fakeCall(t, "fake_wrong", 0)
	ok(t, m.Check())
	for kind, want := range map[uintptr]SigErrorKind{1: SigBadGuard, 2: SigBadRefTag, 3: SigBadAppTag} {
		fakeCall(t, "fake_wrong", kind)
		var e *SigError
		if err := m.Check(); !errors.As(err, &e) || e.Kind != want || e.Actual != 0x1122334455667788 ||
			e.Expected != 7 || e.Offset != 512 {
			t.Errorf("error %d: %v", kind, err)
		}
	}
	fakeCall(t, "fake_wrong", ^uintptr(syscall.EIO)+1)
	if err := m.Check(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a check that fails: %v", err)
	}
	func() {
		defer bind.Hide("v36", "_mlx5dv_mkey_check")()
		wantError(t, m.Check(), ibv.ErrNotSupported, "v36")
	}()
	ok(t, m.Close())
	if err := m.Check(); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("check after Close: %v", err)
	}
	defer bind.Hide("v24", "mlx5dv_create_mkey")()
	_, err = CreateMkey(pd, nil)
	wantError(t, err, ibv.ErrNotSupported, "v24")
}

func fakeCrypto(t *testing.T, dev *ibv.Device) {
	pd := closing(t, must(dev.AllocPD())(t))
	login := CryptoLogin{CredentialID: 0x11223344, ImportKEK: 0x55667788}
	for i := range login.Credential {
		login.Credential[i] = byte(i + 1)
	}
	key := make([]byte, 128)
	key[0], key[127] = 0x12, 0x34
	fakeCall(t, "fake_caps", capSignature)
	for name, f := range map[string]func() error{
		"login":  func() error { return LoginCrypto(dev, login) },
		"query":  func() error { _, err := QueryCrypto(dev); return err },
		"logout": func() error { return LogoutCrypto(dev) },
		"dek":    func() error { _, err := CreateDEK(pd, &DEKOptions{Key: key}); return err },
	} {
		wantUnsupported(t, name+" on a device that does not encrypt", f())
	}

	fakeCall(t, "fake_caps", capCrypto)
	if err := LogoutCrypto(dev); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("logout without login: %v", err)
	}
	none := must(QueryCrypto(dev))(t)
	ok(t, LoginCrypto(dev, login))
	if lastArg(t, 0) != 0x11223344 || lastArg(t, 1) != 0x55667788 {
		t.Errorf("logged in with %#x and %#x", lastArg(t, 0), lastArg(t, 1))
	}
	if s := must(QueryCrypto(dev))(t); s == none || s != 1 {
		t.Errorf("state %v after login, %v before", s, none)
	}
	if err := LoginCrypto(dev, login); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a second login: %v", err)
	}
	ok(t, LogoutCrypto(dev))

	d := must(CreateDEK(pd, &DEKOptions{Key: key, Wide: true, Opaque: [8]byte{1, 2, 3}}))(t)
	if got := [3]int{lastArg(t, 0), lastArg(t, 1), lastArg(t, 2)}; got != [3]int{1, 0, 0x1234} {
		t.Errorf("a key was made of %x", got)
	}
	if i := must(d.Query())(t); !i.Ready || i.Opaque != [8]byte{1, 2, 3} {
		t.Errorf("%+v", i)
	}
	bad := must(CreateDEK(pd, &DEKOptions{Key: key[:1], Keytag: true, Opaque: [8]byte{0xee}}))(t)
	if got := [3]int{lastArg(t, 0), lastArg(t, 1), lastArg(t, 2)}; got != [3]int{0, 1, 0x1200} {
		t.Errorf("a key with a tag was made of %x", got)
	}
	if i := must(bad.Query())(t); i.Ready {
		t.Errorf("%+v of a key in error", i)
	}
	var busy *ibv.BusyError
	if err := pd.Close(); !errors.As(err, &busy) {
		t.Errorf("closing the PD under a key: %v", err)
	}
	ok(t, d.Close())
	ok(t, bad.Close())
	if _, err := d.Query(); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("query after Close: %v", err)
	}
	for _, c := range []struct {
		caps  uintptr
		login bool
		made  bool
	}{
		{capCrypto, false, true},
		{capCrypto | capWrapped, false, false},
		{capCrypto | capWrapped, true, true},
	} {
		fakeCall(t, "fake_caps", c.caps)
		if c.login {
			ok(t, LoginCrypto(dev, login))
		}
		d, err := CreateDEK(pd, &DEKOptions{Key: key})
		if c.made != (err == nil) || !c.made && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("device %#x, login %v: %v", c.caps, c.login, err)
		}
		if err == nil {
			ok(t, d.Close())
		}
		if c.login {
			ok(t, LogoutCrypto(dev))
		}
	}
	func() {
		defer bind.Hide("v42", "mlx5dv_create_steering_anchor")()
		for _, old := range []uintptr{capCrypto, capCrypto | capWrapped} {
			fakeCall(t, "fake_caps", old|capBefore42)
			ok(t, must(CreateDEK(pd, &DEKOptions{Key: key}))(t).Close())
		}
	}()
	fakeCall(t, "fake_caps", capCrypto)
	_, err := CreateDEK(nil, nil)
	wantArg(t, "no PD", "pd", err)
	_, err = CreateDEK(pd, nil)
	wantArg(t, "no key", "Key", err)
	var l *ibv.LimitError
	if _, err := CreateDEK(pd, &DEKOptions{Key: make([]byte, 129)}); !errors.As(err, &l) || l.Limit != 128 {
		t.Errorf("a key of 129 bytes: %v", err)
	}
	if _, err := CreateDEK(pd, &DEKOptions{Key: make([]byte, 16)}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a key that the device refuses: %v", err)
	}
	defer bind.Hide("v37", "mlx5dv_crypto_login", "mlx5dv_crypto_login_query_state", "mlx5dv_crypto_logout",
		"mlx5dv_dek_create")()
	for _, f := range []func() error{
		func() error { return LoginCrypto(dev, login) },
		func() error { _, err := QueryCrypto(dev); return err },
		func() error { return LogoutCrypto(dev) },
		func() error { _, err := CreateDEK(pd, &DEKOptions{Key: key}); return err },
	} {
		wantError(t, f(), ibv.ErrNotSupported, "v37")
	}
}

// Compression, memcpy and mkeys of QPs are refused before C is called, by what the device tells.
func fakeCapabilities(t *testing.T, dev *ibv.Device) {
	const raw, direct, ops = ibv.DataPathRaw, ibv.DataPathDirect, ibv.DataPathOps
	for _, c := range []struct {
		caps   uintptr
		path   ibv.DataPath
		format CQEFormats
		size   int
		fields ibv.WCFields
		say    string // of an UnsupportedError, or of an ArgError if it begins with !
	}{
		{0, raw, CQEHash, 0, 0, "with the formats 0"},
		{0, direct, CQEHash, 0, 0, "with the formats 0"},
		{capCompression, direct, CQEChecksum, 0, 0, "with the formats Hash"},
		{capCompression, raw, CQEChecksumStride, 0, 0, "with the formats Hash"},
		{capCompression, direct, CQEHash, 128, 0, "EntrySize 64"},
		{capCompression, ops, CQEHash, 0, 0, "DataPathDirect"},
		{capCompression, direct, CQEHash | CQEChecksum, 0, 0, "!one format"},
		{capCompression, direct, 1 << 3, 0, 0, "!one format"},
		{capCompression, direct, CQEHash, 0, ibv.FieldTimestamp, "!no times"},
		{capCompression, direct, CQEHash, 0, ibv.FieldWallClock, "!no times"},
	} {
		fakeCall(t, "fake_caps", c.caps)
		_, err := CreateCQ(dev, 16, &CQOptions{EntrySize: c.size, Compression: c.format,
			CQOptions: ibv.CQOptions{DataPath: c.path, Fields: c.fields}})
		say, isArg := strings.CutPrefix(c.say, "!")
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v on %v of %d bytes: %v, want %q", c.format, c.path, c.size, err, say)
			continue
		}
		var ae *ibv.ArgError
		if errors.As(err, &ae) != isArg {
			t.Errorf("%v", err)
		}
		if !isArg {
			wantUnsupported(t, c.say, err)
		}
	}

	fakeCall(t, "fake_caps", 0)
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(4, &ibv.CQOptions{DataPath: ops}))(t))
	_, err := CreateQP(pd, cq, cq, &QPOptions{DriverOps: WithMemcpy})
	wantUnsupported(t, "memcpy on a device without", err)
	_, err = CreateQP(pd, cq, cq, &QPOptions{QPOptions: ibv.QPOptions{Type: ibv.UD}, DriverOps: WithMemcpy})
	wantArg(t, "memcpy on UD", "DriverOps", err)
	defer bind.Hide("v21", "mlx5dv_create_qp")()
	_, err = CreateQP(pd, cq, cq, &QPOptions{DriverOps: WithMkeyConfigure})
	wantError(t, err, ibv.ErrNotSupported, "v21")
}
