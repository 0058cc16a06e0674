package efadv

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/loader"

	"github.com/pureverbs/pureverbs/ibv"
)

// TestLibEFA opens this machine's libefa, which has what its release is said to have. There is no device of it.
func TestLibEFA(t *testing.T) {
	testutil.NeedLibrary(t)
	if os.Getenv(systemEnv) == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestLibEFA$", "-test.v")
		c.Env = append(os.Environ(), systemEnv+"=1", loader.PathEnv+"=")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLibEFA") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	lib, err := bind.Open(loader.EFA)
	if err != nil {
		t.Fatal(err)
	}
	if !lib.Has("efadv_create_driver_qp") || lib.Has("efadv_no_such") || !strings.Contains(lib.Path(), "libefa") {
		t.Errorf("%s, version %q", lib.Path(), lib.Version())
	}
	devs, err := ibv.Devices()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devs {
		if strings.HasPrefix(d.Name, "rdmap") || strings.HasPrefix(d.Name, "efa_") {
			t.Skip("skipped: this machine has an Elastic Fabric Adapter")
		}
	}
}

// TestRXE_NotEFA has libefa itself say that another provider's device is not its own.
func TestRXE_NotEFA(t *testing.T) {
	dev, err := ibv.Open(testutil.NeedRXE(t).Dev[0])
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	_, err = QueryDevice(dev)
	wantErr(t, err, ibv.ErrNotSupported, "a device that libefa drives", dev.Name())
	_, err = CreateCQ(dev, 1, nil)
	wantErr(t, err, ibv.ErrNotSupported, dev.Name())
}
