package ibv

import (
	"errors"
	"os"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestLibDevices lists what the installed libibverbs sees: on most build hosts
// nothing, which is an empty list and not an error.
func TestLibDevices(t *testing.T) {
	testutil.NeedLibrary(t)
	inChild(t, "", nil, testLibDevices)
}

func testLibDevices(t *testing.T) {
	devs, err := Devices()
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir("/sys/class/infiniband_verbs")
	if len(entries) == 0 && len(devs) != 0 {
		t.Errorf("devices %+v on a host without uverbs", devs)
	}
	_, err = Open("no-such-device")
	if !errors.Is(err, ErrNoDevice) {
		t.Errorf("open of a device that is not there: %v", err)
	}
	t.Log(err)
}
