package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const deployed = "../../deploy/"

// needDeploy skips a test that runs without the sources.
func needDeploy(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(deployed); err != nil {
		t.Skip("the sources are not here")
	}
}

// meshLine returns what perf mesh makes of a command line.
func meshLine(words []string, env map[string]string) (*meshOptions, error) {
	var m meshOptions
	f := pflag.NewFlagSet("perf mesh", pflag.ContinueOnError)
	m.flags(f)
	return &m, errors.Join(f.Parse(words), m.check(f, func(name string) string { return env[name] }))
}

// TestDeployKubernetes reads the command line and the ports of the manifests.
func TestDeployKubernetes(t *testing.T) {
	needDeploy(t)
	file, err := os.Open(deployed + "kubernetes/base/mesh.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	type port struct {
		Port, ContainerPort int
	}
	type object struct {
		Kind string
		Spec struct {
			Ports       []port
			JobTemplate struct {
				Spec struct {
					Template struct {
						Spec struct {
							Subdomain  string
							Containers []struct {
								Command []string
								Ports   []struct {
									ContainerPort int `yaml:"containerPort"`
								}
							}
						}
					}
				}
			} `yaml:"jobTemplate"`
		}
	}
	objects := map[string]*object{}
	for d := yaml.NewDecoder(file); ; {
		o := new(object)
		if err := d.Decode(o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		objects[o.Kind] = o
	}
	if objects["Service"] == nil || objects["CronJob"] == nil {
		t.Fatalf("mesh.yaml has %v", objects)
	}
	pod := objects["CronJob"].Spec.JobTemplate.Spec.Template.Spec
	c := pod.Containers[0]
	for _, rank := range []string{"0", "1"} {
		m, err := meshLine(c.Command[2:], map[string]string{"JOB_COMPLETION_INDEX": rank})
		if err != nil || !m.ranked || m.expect != 2 || m.join != "$(RUN)-0."+pod.Subdomain ||
			m.testPorts != "18600-18999" {
			t.Errorf("index %s: %q: %v", rank, c.Command, err)
		}
		if service := objects["Service"].Spec.Ports[0].Port; m.port != service || c.Ports[0].ContainerPort != service {
			t.Errorf("ports: perf %d, service %d, container %+v", m.port, service, c.Ports)
		}
	}
}

// TestDeploySlurm runs the batch file with a program that prints its arguments.
func TestDeploySlurm(t *testing.T) {
	needDeploy(t)
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "rdmaperf"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\"\n"), 0o755)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", deployed+"perf-mesh.sbatch", "-s", "8M", "--fail-slow")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SLURM_JOB_ID=7")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(strings.TrimSpace(string(out)), "\n")
	m, err := meshLine(words[1:], nil)
	if err != nil || words[0] != "mesh" || !strings.HasPrefix(m.launch, "srun ") || m.jsonFile != "perf-mesh-7.json" ||
		m.size != 8<<20 || !m.failSlow {
		t.Errorf("%q: %v", words, err)
	}
}

func TestDeployScripts(t *testing.T) {
	needDeploy(t)
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skipf("the scripts were not checked: %v (make setup installs it)", err)
	}
	for _, f := range []string{"perf-mesh.sbatch", "image"} {
		if out, err := exec.Command("shellcheck", deployed+f).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", f, err, out)
		}
	}
}
