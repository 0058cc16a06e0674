// Command prog is a program that uses the loader, for its tests.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/pureverbs/pureverbs/loader"
)

func main() { os.Exit(run()) }

func run() int {
	open := flag.Bool("open", false, "open libibverbs")
	path := flag.String("path", "", "call SetPath")
	flag.Parse()
	if *path != "" {
		if err := loader.SetPath(*path); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	if !*open {
		fmt.Println("help: -open opens libibverbs")
		return 0
	}
	if _, err := loader.Open(loader.IBVerbs); err != nil {
		fmt.Println(err)
		return 3
	}
	fmt.Print(loader.Report())
	return 0
}
