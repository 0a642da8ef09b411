/* What programs look for in /sys and /dev by themselves. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); exit(1); } } while (0)

int main(void)
{
	char *at = realpath("/sys/class/infiniband/angara0/../..", NULL), line[64];
	CHECK(at && !strcmp(at, "/sys/devices/angara/hca0"));
	free(at);
	struct stat stat_of;
	CHECK(!access("/dev/infiniband/uverbs0", R_OK | W_OK) && !stat("/dev/infiniband/uverbs0", &stat_of) && S_ISCHR(stat_of.st_mode));
	CHECK(access("/dev/infiniband/uverbs7", F_OK) == -1 && errno == ENOENT);
	CHECK(!lstat("/sys/class/infiniband/angara0", &stat_of) && S_ISLNK(stat_of.st_mode));
	FILE *file = fopen("/sys/class/infiniband/angara0/ports/1/state", "r");
	CHECK(file && fgets(line, sizeof line, file) && !strcmp(line, "4: ACTIVE\n") && !fclose(file));
	CHECK(open("/sys/class/infiniband/angara0/ports/1/state", O_RDWR) == -1 && errno == EACCES);
	int fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && !close(fd));
	DIR *dir = opendir("/sys/class/infiniband");
	CHECK(dir);
	int names = 0;
	for (struct dirent *entry; (entry = readdir(dir));) names += !strcmp(entry->d_name, "angara0");
	CHECK(names == 1 && !closedir(dir));
	CHECK((file = fopen("/proc/self/stat", "r")) && !fclose(file));
	puts("done");
	return 0;
}
