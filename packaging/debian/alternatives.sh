# A program's usual name in /usr/bin, by update-alternatives. Debian's openmpi-bin has the same names as files of its own:
# update-alternatives would replace or remove them, so it is asked only where a name is free or already its own.
mine() {
    link=${DPKG_ROOT:-}/usr/bin/$1
    if [ -L "$link" ]; then
        [ "$(readlink "$link")" = "/etc/alternatives/$1" ]
    else
        [ ! -e "$link" ]
    fi
}
register() {
    if mine "$1"; then
        update-alternatives --quiet --install "/usr/bin/$1" "$1" "/usr/lib/angara/bin/$1" 20
    else
        forget "$1"
    fi
}
forget() {
    if mine "$1"; then
        update-alternatives --quiet --remove "$1" "/usr/lib/angara/bin/$1"
    elif [ "$(update-alternatives --list "$1" 2>/dev/null)" = "/usr/lib/angara/bin/$1" ]; then
        # Another package has put a file in the place of the link: that stays if the link is looked for elsewhere.
        nowhere=$(mktemp -d)
        env -u DPKG_ROOT update-alternatives --quiet --instdir "$nowhere" --altdir "${DPKG_ROOT:-}/etc/alternatives" \
            --admindir "${DPKG_ADMINDIR:-${DPKG_ROOT:-}/var/lib/dpkg}/alternatives" \
            --log "${DPKG_ROOT:-}/var/log/alternatives.log" --remove "$1" "/usr/lib/angara/bin/$1" 2>/dev/null
        rmdir "$nowhere"
    fi
}
