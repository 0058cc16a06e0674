package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// emulator is the program that runs tests on the emulated device, in strict mode: two devices, as the VM has.
const emulator = ".build/bin/emu"

// emu runs on the emulated ConnectX what the VM's tests run on SoftRoCE, with libmlx5's data path and with our own, and then the stock programs.
func (r *runner) emu(ctx context.Context) ([]Result, error) {
	if err := r.command(ctx, "go", "build", "-trimpath", "-o", ".build/bin/", "./cmd/...", "./examples/...").Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	if r.ratios {
		dirs, err := packagesWith(r.root, "TestEmuRatios", r.pkg)
		if err != nil || len(dirs) == 0 {
			return nil, errors.Join(err, errIf(len(dirs) == 0, "no package has a TestEmuRatios function"))
		}
		for i := range dirs {
			dirs[i] = "./" + dirs[i]
		}
		return r.gotest(ctx, "emu", []string{"PUREVERBS_FIGURES=1"}, append([]string{"-run=^TestEmuRatios", "-p=1"}, dirs...)...)
	}
	run := "-run=^TestRXE|^TestEmu"
	if r.run != "" {
		run = "-run=" + r.run
	}
	var results []Result
	dirs, err := packagesWith(r.root, "TestRXE", r.pkg)
	if err != nil {
		return nil, err
	}
	for _, path := range []string{"ops", "direct"} {
		var own, mixed []string
		for _, d := range dirs {
			switch d {
			case "test/rxebench", "test/bed":
				// These compare with the stock tools in the VM, or look at the VM itself.
			case "cmd/perf":
				if path == "direct" { // it is long, and TestEmuPairs runs it on either path
					mixed = append(mixed, "./"+d)
				}
			case "rdmacm/rsocket", "examples":
				mixed = append(mixed, "./"+d)
			default:
				own = append(own, "./"+d)
			}
		}
		res, err := r.emulated(ctx, path, run, "--strict", own)
		results = append(results, res...)
		if err == nil {
			// Stock programs do not destroy all that they made.
			res, err = r.emulated(ctx, path, run, "--strict-ignore=leak", mixed)
			results = append(results, res...)
		}
		if err != nil {
			results = append(results, Result{"emu", "tiers", path, Fail, err.Error() + "\n"})
		}
	}
	dirs, err = packagesWith(r.root, "TestEmu", r.pkg)
	if err != nil || len(dirs) == 0 {
		return results, err
	}
	for i := range dirs {
		dirs[i] = "./" + dirs[i]
	}
	res, err := r.gotest(ctx, "emu", nil, append([]string{run, "-p=1"}, dirs...)...)
	return append(results, res...), err
}

const skipFigures = "-skip=^TestRXEFigures|^TestRXERatios"

// emulated runs packages on two devices with a data path.
func (r *runner) emulated(ctx context.Context, path, run, strict string, pkgs []string) ([]Result, error) {
	if len(pkgs) == 0 {
		return nil, nil
	}
	env := []string{"PUREVERBS_TEST_TIER=emu", "PUREVERBS_DATAPATH=" + path, "PATH=" + filepath.Join(r.root, ".build/bin") + ":" + os.Getenv("PATH")}
	exec := filepath.Join(r.root, emulator) + " " + strict + " --device mlx5_0 --device mlx5_1 --"
	res, err := r.gotest(ctx, "emu", env, append([]string{run, skipFigures, "-p=1", "-exec=" + exec}, pkgs...)...)
	for i := range res {
		res[i].Package = path + " " + res[i].Package
	}
	return res, err
}
