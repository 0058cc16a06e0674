package ibv

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// shared is what one process tells another of its objects.
type shared struct {
	PD, MR uint32
	Memory RemoteMemory
	DM     uint32
	DMSize int // 0: there is none
}

// TestRXE_Import has a second process use the device, the PD, the memory and the device memory of the first one.
func TestRXE_Import(t *testing.T) {
	if os.Getenv(childEnv) == t.Name() {
		useImported(t)
		return
	}
	rxe := testutil.NeedRXE(t)
	s := newSide(t, 0, nil)
	f := must(s.dev.CommandFile())(t)
	defer f.Close()
	if !rxe.Emulated && !rxe.Hardware { // its provider imports nothing
		_, err := ImportDevice(f)
		wantUnsupported(t, err, "import of a device")
		return
	}
	none := must(os.Open(os.DevNull))(t)
	defer none.Close()
	if _, err := ImportDevice(none); lacks(t, err, 31) {
		t.Skip("skipped:", err)
	}
	what := shared{PD: s.pd.Handle(), MR: s.mr.Handle(), Memory: s.mr.Remote()}
	dm := closing(t, must(s.dev.AllocDM(64, nil))(t))
	if h, err := dm.Handle(); !lacks(t, err, 35) {
		ok(t, err)
		what.DM, what.DMSize = h, dm.Len()
	}
	must(dm.WriteAt([]byte("of the parent..."), 0))(t)
	fill(s.mr.Bytes()[:4096], 1)

	pair := must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))(t)
	ours, theirs := pair[0], os.NewFile(uintptr(pair[1]), "socket")
	defer unix.Close(ours)
	c := exec.Command(must(os.Executable())(t), "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	c.Env = append(os.Environ(), childEnv+"="+t.Name())
	c.ExtraFiles = []*os.File{theirs}
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	ok(t, c.Start())
	ok(t, theirs.Close())
	ok(t, unix.Sendmsg(ours, must(json.Marshal(what))(t), unix.UnixRights(int(f.Fd())), nil, 0))
	err := c.Wait()
	if err != nil || !strings.Contains(out.String(), "--- PASS: "+t.Name()) {
		t.Fatalf("the other process: %v\n%s", err, out.String())
	}

	if path, why := s.cq.DataPath(); !strings.Contains(out.String(), "data path "+path.String()) {
		t.Errorf("the other process has another data path than %v (%s)\n%s", path, why, out.String())
	}

	// What the other process did to ours, and what it left to us.
	same(t, s.mr.Bytes()[8192:8192+4096], 1)
	same(t, s.mr.Bytes()[16384:16384+4096], 2)
	if what.DMSize > 0 {
		got := make([]byte, 16)
		must(dm.ReadAt(got, 32))(t)
		if string(got) != "of the child...." {
			t.Errorf("device memory: %q", got)
		}
	}
	qp := s.newQP(t, nil)
	ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
	post(t, qp, SendWR{Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 64)}, Remote: s.mr.Remote().At(32768)})
	s.good(t, 0)
}

func useImported(t *testing.T) {
	buf, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := unix.Recvmsg(3, buf, rights, unix.MSG_CMSG_CLOEXEC)
	ok(t, err)
	var what shared
	ok(t, json.Unmarshal(buf[:n], &what))
	messages := must(unix.ParseSocketControlMessage(rights[:m]))(t)
	f := os.NewFile(uintptr(must(unix.ParseUnixRights(&messages[0]))(t)[0]), "device")

	s := &side{dev: must(ImportDevice(f))(t)}
	ok(t, f.Close())
	if s.dev.NumCompVectors() == 0 || s.dev.Name() != testutil.NeedRXE(t).Dev[0] {
		t.Errorf("%s with %d vectors", s.dev.Name(), s.dev.NumCompVectors())
	}
	_, err = s.dev.ImportPD(what.MR)
	wantErr(t, err, nil, "import pd")
	s.pd = must(s.dev.ImportPD(what.PD))(t)
	_, err = s.pd.ImportMR(what.PD, 0)
	wantErr(t, err, nil, "import mr")
	_, err = s.pd.ImportMR(1<<20, 0)
	wantErr(t, err, syscall.ENOENT, "import mr")
	theirs := must(s.pd.ImportMR(what.MR, what.Memory.Addr))(t)
	if theirs.Remote() != what.Memory {
		t.Errorf("imported %+v, want %+v", theirs.Remote(), what.Memory)
	}
	s.mr = must(s.pd.AllocMR(testMRSize, LocalWrite|RemoteWrite|RemoteRead, nil))(t)
	s.cq = must(s.dev.CreateCQ(64, nil))(t)
	path, _ := s.cq.DataPath()
	fmt.Println("data path", path)
	qp := must(s.pd.CreateQP(s.cq, s.cq, nil))(t)
	rxe := testutil.NeedRXE(t)
	ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
	step := func(wr SendWR) {
		t.Helper()
		wr.Flags = Signaled
		post(t, qp, wr)
		s.good(t, 0)
	}
	// The other process's memory, from and to itself, then to ours and from it.
	step(SendWR{Opcode: OpWrite, SGEs: []SGE{theirs.SGE(0, 4096)}, Remote: theirs.Remote().At(8192)})
	step(SendWR{Opcode: OpRead, SGEs: []SGE{s.mr.SGE(0, 4096)}, Remote: theirs.Remote().At(0)})
	same(t, s.mr.Bytes()[:4096], 1)
	fill(s.mr.Bytes()[:4096], 2)
	step(SendWR{Opcode: OpRead, SGEs: []SGE{theirs.SGE(16384, 4096)}, Remote: s.mr.Remote().At(0)})
	if what.DMSize > 0 {
		_, err = s.dev.ImportDM(what.PD, 64)
		wantErr(t, err, nil, "import dm")
		dm := must(s.dev.ImportDM(what.DM, what.DMSize))(t)
		got := make([]byte, 16)
		must(dm.ReadAt(got, 0))(t)
		if string(got) != "of the parent..." {
			t.Errorf("device memory: %q", got)
		}
		must(dm.WriteAt([]byte("of the child...."), 32))(t)
		mr := must(s.pd.RegDM(dm, 0, 64, LocalWrite))(t)
		step(SendWR{Opcode: OpWrite, SGEs: []SGE{mr.SGE(0, 16)}, Remote: s.mr.Remote().At(0)})
		if got := string(s.mr.Bytes()[:16]); got != "of the parent..." {
			t.Errorf("device memory as the device reads it: %q", got)
		}
		ok(t, mr.Close())
		ok(t, dm.Close())
	}
	wantErr(t, s.pd.Close(), syscall.EBUSY)
	for _, c := range []interface{ Close() error }{qp, s.cq, theirs, s.mr, s.pd, s.dev} {
		ok(t, c.Close())
	}
}
