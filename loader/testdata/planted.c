// A library that tells when it is loaded, and what C's environment holds then.
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void start(void)
{
	const char *drivers = getenv("RDMAV_DRIVERS");
	printf("planted library is loaded, RDMAV_DRIVERS=%s\n", drivers ? drivers : "(unset)");
	fflush(stdout);
}
int ibv_fork_init(void) { return 0; }
