package ibv

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/loader"
)

// libraryEnv is the library that a child of TestRXE_Unlisted has.
const libraryEnv = "PUREVERBS_TEST_LIBRARY"

// TestRXE_Unlisted has a libibverbs that finds no driver, since it looks elsewhere or
// for another release's, on a host with devices: it lists none, and every call says why. With ControlAuto the device is
// driven natively then.
func TestRXE_Unlisted(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, tt := range []struct {
		name string
		// edit changes where the library looks; the length must stay.
		edit func(folder, abi string) (old, new string)
		want []string
	}{
		{"no driver", func(folder, abi string) (string, string) {
			return folder + "/lib%s", folder[:len(folder)-1] + "_/lib%s"
		}, []string{"has no file lib", "install "}},
		{"another release's", func(folder, abi string) (string, string) {
			return "lib%s-rdmav" + abi + ".so", "lib%s-rdmav" + strings.Repeat("1", len(abi)) + ".so"
		}, []string{"/lib", "is of rdma-core v", "and this libibverbs takes provider ABI 11"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := os.Getenv(libraryEnv)
			if file == "" {
				info := loader.Report().Libraries[0]
				b := must(os.ReadFile(info.Path))(t)
				old, new := tt.edit(info.ProviderDir, info.ProviderABI)
				if !bytes.Contains(b, []byte(old)) {
					t.Fatalf("%s does not look for %q: %+v", info.Path, old, info)
				}
				file = t.TempDir() + "/libibverbs.so.1"
				ok(t, os.WriteFile(file, bytes.ReplaceAll(b, []byte(old), []byte(new)), 0o755))
			}
			t.Run("library", func(t *testing.T) {
				inChild(t, file, []string{libraryEnv + "=" + file, ControlEnv + "=library"}, func(t *testing.T) {
					devs, listing := Devices()
					_, opening := Open(rxe.Dev[0])
					for _, err := range []error{listing, opening, Unlisted()} {
						wantErr(t, err, ErrNoDevice, append(tt.want, rxe.Dev[0])...)
						var u *UnlistedError
						if !errors.As(err, &u) || len(u.Devices) < 1 || devs != nil {
							t.Errorf("%v, unlisted: %v", devs, err)
						}
					}
				})
			})
			t.Run("auto", func(t *testing.T) {
				if !rxe.Emulated {
					t.Skip("the native control path does not drive SoftRoCE: runs on the emulated device only")
				}
				inChild(t, file, []string{libraryEnv + "=" + file, ControlEnv + "=auto"}, func(t *testing.T) {
					dev := closing(t, must(Open(rxe.Dev[0]))(t))
					path, why := dev.ControlPath()
					if path != ControlNative || why != "libibverbs does not list the device" {
						t.Errorf("control path %v because %q", path, why)
					}
				})
			})
		})
	}
}
