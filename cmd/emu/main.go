//go:build linux && (amd64 || arm64)

// Emu runs a program on an emulated ConnectX: the program's own libibverbs, libmlx5 and librdmacm find and drive it.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/cm"
	"github.com/pureverbs/pureverbs/internal/emu/config"
	"github.com/pureverbs/pureverbs/internal/emu/engine"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
	"github.com/pureverbs/pureverbs/internal/emu/notify"
	"github.com/pureverbs/pureverbs/internal/emu/sysfs"
	"github.com/pureverbs/pureverbs/internal/emu/verbs"
)

func main() {
	notify.Shim()
	code, err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "emu:", err)
	}
	os.Exit(code)
}

// Exit codes of emu itself, as env(1) and others have them.
const (
	exitUsage  = 125
	exitCannot = 126
)

func run(args []string, stdout, stderr io.Writer) (int, error) {
	o, err := parse(args, stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return 0, nil
	}
	if err != nil {
		return exitUsage, err
	}
	_ = stderr
	if o.list {
		_, err := fmt.Fprint(stdout, o.config)
		return 0, err
	}
	return serve(o)
}

func serve(o *options) (int, error) {
	tree, err := sysfs.New(o.config)
	if err != nil {
		// Under another emulator, the machine has its devices.
		if missing := notify.Probe(); missing != nil {
			err = missing
		}
		return exitCannot, err
	}
	defer tree.Close()
	fabric := hca.New(o.config)
	eng := engine.New(fabric, engine.Config{Strict: o.strict})
	fabric.Engine = eng
	go eng.Run()
	defer eng.Stop()
	f := &files{tree: tree, verbs: verbs.New(fabric), cm: cm.New(fabric), calm: func(int) {}}
	if runtime.NumCPU() < 4 {
		f.calm = calm
	}
	s, err := notify.Start(notify.Config{
		Argv:        o.argv,
		Window:      [2]int{700, 1000},
		IoctlCmds:   []uint32{verbsIoctl},
		DenyNetlink: []int{unix.NETLINK_RDMA},
		Forward:     []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM},
		OnPanic: func(c *notify.Call, v any, stack []byte) {
			fmt.Fprintf(os.Stderr, "emu: a mistake of the emulator's: %v\n%s", v, stack)
		},
	}, f.handle)
	if err != nil {
		return exitCannot, err
	}
	return s.Wait()
}

// verbsIoctl is RDMA_VERBS_IOCTL.
const verbsIoctl = 0xc0181b01

// calm makes a program give way to the emulator wherever both want a processor: programs poll without end, and what they wait for is done here.
func calm(tid int) {
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(tid) + "/task/*")
	for _, t := range tasks {
		if id, err := strconv.Atoi(filepath.Base(t)); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, 19)
		}
	}
}

type options struct {
	config *config.Config
	argv   []string
	list   bool
	strict bool
}

func parse(args []string, stdout io.Writer) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("emu", pflag.ContinueOnError)
	f.SetInterspersed(false)
	f.SetOutput(stdout)
	devices := f.StringArray("device", nil, "an emulated device; may be repeated. `SPEC` is "+config.Syntax)
	limits := f.StringArray("limit", nil, "a limit of the devices, as `max_qp=64` or mlx5_1:max_qp=64")
	memlock := f.Uint64("memlock", 0, "`bytes` that a process may register, as RLIMIT_MEMLOCK; 0 for no limit")
	f.BoolVar(&o.list, "list", false, "show the devices and end")
	f.BoolVar(&o.strict, "strict", false, "report what an adapter would punish, and end with an exit code that tells")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.argv = f.Args()
	var err error
	o.config = config.Default()
	if len(*devices) > 0 {
		if o.config, err = config.Parse(*devices); err != nil {
			return nil, err
		}
	}
	o.config.MemlockLimit = *memlock
	for _, l := range *limits {
		if err := o.config.SetLimit(l); err != nil {
			return nil, err
		}
	}
	if err := o.config.Validate(); err != nil {
		return nil, err
	}
	if len(o.argv) == 0 && !o.list {
		return nil, errors.New("no program to run: emu [flags] -- program args…; emu --help tells the flags")
	}
	return o, nil
}
