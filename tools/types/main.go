// Types checks the types of all packages below the working directory, with -test those of their tests too, for the
// system that GOOS and GOARCH name. It compiles nothing, and of other modules and the standard library it reads
// declarations only. This takes a tenth of the time of compiling them.
package main

import (
	"flag"
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	tests := flag.Bool("test", false, "check the tests, too")
	flag.Parse()
	list, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedModule,
		Tests: *tests,
	}, "./...")
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("no packages in %s", os.Getenv("PWD"))
	}
	bad := err != nil
	if err != nil {
		fmt.Println("types:", err)
	}
	for _, p := range list {
		for _, e := range p.Errors {
			fmt.Println(e)
			bad = true
		}
	}
	if bad {
		os.Exit(1)
	}
}
